package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

func TestPageHeaders(t *testing.T) {
	got := send(New(options(t)), "GET", "/").Header()
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
	got := send(New(options(t)), "GET", "/")
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
	body := send(New(options(t)), "GET", "/").Body.String()
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

func TestRunbookIsServedWithStrictPolicy(t *testing.T) {
	a := New(options(t))
	got := send(a, "GET", "/runbooks/limits.html")
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `<h2 id="redis-is-unavailable">Redis is unavailable</h2>`) {
		t.Errorf("got %d: %.300s", got.Code, got.Body)
	}
	policy := got.Header().Get("Content-Security-Policy")
	testkit.Contains(t, policy, "default-src 'none'", "style-src 'sha256-", "form-action 'none'", "frame-ancestors 'none'")
	for _, forbidden := range []string{"<script", " style=", "{{", "unsafe"} {
		if strings.Contains(got.Body.String()+policy, forbidden) {
			t.Errorf("there is %q in the page", forbidden)
		}
	}
	for _, name := range []string{"nothing.html", "limits.md", "limits"} {
		if got := send(a, "GET", "/runbooks/"+name); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", name, got.Code)
		}
	}
}

func TestStateIsSharedForHalfASecond(t *testing.T) {
	now, o := noon, options(t)
	o.Clock = func() time.Time { return now }
	a := New(o)
	for _, step := range []struct{ after, at time.Duration }{
		{0, 0}, {499 * time.Millisecond, 0}, {time.Millisecond, 500 * time.Millisecond}, {-time.Hour, 500*time.Millisecond - time.Hour}, // the clock was set back
	} {
		now = now.Add(step.after)
		if got := decode[State](t, send(a, "GET", "/admin/state")); !got.At.Equal(noon.Add(step.at)) || got.Verdict != "well" || got.Draining {
			t.Errorf("after %v: got %+v", step.after, got)
		}
	}
	a.Draining()
	if got := decode[State](t, send(a, "GET", "/admin/state")); !got.Draining || got.Verdict != "impaired" { // at once
		t.Errorf("got %+v", got)
	}
}

// The metrics that the page shows are in the table of all metrics, which has those of a gateway.
func TestMetricsOfThePageExist(t *testing.T) {
	table, err := os.ReadFile("../../../../docs/operate/metrics.md")
	testkit.Must(t, err)
	for _, name := range []string{metricRequests, metricDuration, metricInFlight, metricCalls, metricCallTimes, metricUnknown} {
		testkit.Contains(t, string(table), "| `"+name)
	}
}
