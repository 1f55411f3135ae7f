package console_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func page(t *testing.T) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	newConsole(newCounters(), healthy()).Page(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return w
}

func TestPageHeaders(t *testing.T) {
	got := page(t).Header()
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store",
		"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q", name, got.Get(name))
		}
	}
	policy := got.Get("Content-Security-Policy")
	testkit.Contains(t, policy,
		"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	)
	for _, forbidden := range []string{"unsafe", "http", "*"} {
		if strings.Contains(policy, forbidden) {
			t.Errorf("%s is in %s", forbidden, policy)
		}
	}
}

func TestPolicyHasTheHashesOfScriptAndStyle(t *testing.T) {
	got := page(t)
	policy := got.Header().Get("Content-Security-Policy")
	for _, element := range []string{"script", "style"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(got.Body.String(), -1)
		if len(found) != 1 || len(found[0][1]) < 9000 {
			t.Fatalf("%d elements %s", len(found), element)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := fmt.Sprintf("%s-src 'sha256-%s'", element, base64.StdEncoding.EncodeToString(sum[:])); !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
}

func TestPageIsSmallAndLoadsNothing(t *testing.T) {
	body := page(t).Body.String()
	if len(body) > 50<<10 {
		t.Errorf("%d bytes", len(body))
	}
	own := strings.NewReplacer("http://www.w3.org/2000/svg", "").Replace(body) // a namespace, not a request
	for _, forbidden := range []string{"http:", "https:", "//www", " src=", "@import", "url(http", " style=", " onclick", "innerHTML", "localStorage", "sessionStorage"} {
		if strings.Contains(own, forbidden) {
			t.Errorf("there is %q in the page", forbidden)
		}
	}
}
