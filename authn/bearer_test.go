package authn_test

import (
	"regexp"
	"strings"
	"testing"

	"opsgate/authn"
)

// FuzzBearerToken has more forms of one header.
func TestBearerToken(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name          string
		authorization []string
		token         string
		sent          bool
	}{
		{"no header", nil, "", false},
		{"an empty header", []string{""}, "", false},
		{"a token", []string{"Bearer abc"}, "abc", true},
		{"the longest", []string{"Bearer " + long}, long, true},
		{"too long", []string{"Bearer " + long + "x"}, "", true},
		{"another scheme", []string{"Basic YTpi"}, "", false},
		{"two headers", []string{"Bearer abc", "Bearer abc"}, "", true},
		{"a header and an empty one", []string{"Bearer abc", ""}, "", true},
		{"another scheme and a token", []string{"Basic YTpi", "Bearer abc"}, "", true},
		{"a token and another scheme", []string{"Bearer abc", "Basic YTpi"}, "", true},
		{"two other schemes", []string{"Basic YTpi", "Basic YTpi"}, "", false},
		{"two empty headers", []string{"", ""}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, sent := authn.BearerToken(c.authorization)
			if token != c.token || sent != c.sent {
				t.Errorf("BearerToken = %q, %v; want %q, %v", token, sent, c.token, c.sent)
			}
		})
	}
}

func FuzzBearerToken(f *testing.F) {
	for _, header := range []string{
		"Bearer " + mint(1), "bearer  x==  ", "BEARER abc", "Bearer   abc  ", "Bearer aZ09-._~+/==", "Bearer", "Bearer  ", "Bearer \t", "abc", " \t",
		"Bearerabc def", "Bearer\tabc", "Bearer a b", "Bearer abc, Bearer def", "Bearer a,b", "Bearer ==", "Bearer a=b", "Bearer ábc", "Basic YTpi", "",
	} {
		f.Add(header)
	}
	begins := regexp.MustCompile(`^(?i:bearer) (?s:.)*[^ \t]`)
	form := regexp.MustCompile(`^(?i:bearer) +([A-Za-z0-9._~+/-]+=*) *$`) // RFC 6750, section 2.1
	f.Fuzz(func(t *testing.T, header string) {
		token, sent := authn.BearerToken([]string{header})
		if sent != begins.MatchString(header) {
			t.Errorf("%q: sent is %v", header, sent)
		}
		want := ""
		if match := form.FindStringSubmatch(header); len(match) > 0 && len(match[1]) <= 256 {
			want = match[1]
		}
		if token != want {
			t.Errorf("%q: token %q, want %q", header, token, want)
		}
		if token == "" {
			return
		}
		if again, _ := authn.BearerToken([]string{"BEARER " + token}); again != token {
			t.Errorf("%q is parsed as %q, and that as %q", header, token, again)
		}
		if doubled, _ := authn.BearerToken([]string{header, header}); doubled != "" {
			t.Errorf("two headers: token %q", doubled)
		}
	})
}
