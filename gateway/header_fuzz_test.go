package gateway

import (
	"errors"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"opsgate/gateway/decode"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

func FuzzContentType(f *testing.F) {
	for _, s := range []string{
		"application/json", "Application/JSON;charset=utf-8", " application/json ; a=\"b;c\"", "application/jſon", "application/json, text/plain", ";", "",
		"application/json;charset", "text/plain;x=application/json", "application/json+x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		mediaType, _, err := mime.ParseMediaType(header)
		if errors.Is(err, mime.ErrInvalidMediaParameter) || err == nil {
			if got, want := isJSON([]string{header}), mediaType == "application/json"; got != want {
				t.Errorf("%q is JSON: %v, %q, %v", header, got, mediaType, err)
			}
		}
		if isJSON([]string{header, header}) {
			t.Errorf("%q twice is accepted", header)
		}
	})
}

// The response repeats the name of a coding only if it is short and visible ASCII.
func FuzzContentEncoding(f *testing.F) {
	for _, s := range []string{
		"", "identity", "Identity , IDENTITY,", "gzip", "gzip, identity", "identity, br", "identity identity", "ıdentity", "\x1b[31m",
		strings.Repeat("x", 40),
	} {
		f.Add(s)
	}
	none := regexp.MustCompile(`^(?:[\s\v\x{85}\pZ]*(?i:identity)?[\s\v\x{85}\pZ]*(?:,|$))*$`)
	shown := regexp.MustCompile(`^the request body must have no Content-Encoding(?:: [\x21-\x7e]{1,32} is not supported)?$`)
	f.Fuzz(func(t *testing.T, header string) {
		coding := contentCoding([]string{"identity", header})
		if got, want := coding == "", none.MatchString(header); got != want {
			t.Errorf("%q is read as %q", header, coding)
		}
		if text := unsupportedCoding(coding).Text; coding != "" && !shown.MatchString(text) {
			t.Errorf("%q: the response text is %q", header, text)
		}
	})
}

func FuzzRequestID(f *testing.F) {
	for _, s := range []string{"abc", "a\x00b", "", strings.Repeat("x", 128), strings.Repeat("x", 129), "~!", "a b", "é", "ops_live_x"} {
		f.Add(s, int64(0))
	}
	sent, made := regexp.MustCompile(`^[\x21-\x7e]{1,128}$`), regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	f.Fuzz(func(t *testing.T, s string, millis int64) {
		const live = "ops_live_"
		got := requestID([]string{s}, live, time.UnixMilli(millis))
		if want := sent.MatchString(s) && !strings.Contains(s, live); want && got != s || !want && !made.MatchString(got) {
			t.Errorf("%q became %q", s, got)
		}
		if twice := requestID([]string{s, s}, live, time.UnixMilli(millis)); !made.MatchString(twice) || twice == got {
			t.Errorf("%q became %q, and twice %q", s, got, twice)
		}
	})
}

// Both headers are lists of RFC 9651 with the values of the policy and the decision, for any name
// of a limit.
func FuzzLimitHeaders(f *testing.F) {
	f.Add("second", 3, int64(1e9), 2, int64(1e9))
	f.Add(`a"b\c`, 5000, int64(3600e9), 0, int64(1))
	f.Add(`\", "x";q=1`, 64, int64(1e6), 1<<30, int64(-1))
	f.Fuzz(func(t *testing.T, name string, requests int, per int64, remaining int, reset int64) {
		limits := []ratelimit.Limit{
			{Name: name, Requests: requests, Per: time.Duration(per)}, {Name: "tried" + name, Requests: 1, Per: 5e9, Shadow: true},
			{Name: name + "'s", Requests: 7, Per: 3e9},
		}
		p, err := ratelimit.NewPolicy(limits)
		if err != nil || !decode.VisibleASCII(strings.ReplaceAll(name, " ", "_"), 1000) || reset < 0 || reset > 1<<60 || remaining < 0 || remaining > 1e9 {
			return
		}
		all, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: p})
		testkit.Must(t, err)
		set := newLimitSets(all, newMetrics())[0]
		d := &ratelimit.Decision{Budgets: [ratelimit.MaxLimits]ratelimit.Budget{0: {Remaining: remaining, Reset: time.Duration(reset)}, 2: {Remaining: 5, Reset: 9e9}}}
		seconds := func(ns int64) int64 { return (ns + 1e9 - 1) / 1e9 }
		mustHaveHeader(t, http.Header{"List": set.header}, "List", policyOf(name, int64(requests), seconds(per)), policyOf(name+"'s", 7, 3))
		list := []string{string(set.appendRemaining(nil, d))}
		mustHaveHeader(t, http.Header{"List": list}, "List", budgetOf(name, int64(remaining), seconds(reset)), budgetOf(name+"'s", 5, 9))
	})
}
