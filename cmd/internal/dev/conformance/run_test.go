package conformance_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

func TestReferenceBackendPassesAllChecks(t *testing.T) {
	backend := startReference(t)
	report, err := conformance.Run(t.Context(), options(t, backend, backend.address))
	testkit.Must(t, err)
	for _, r := range report.Results {
		if r.Outcome != conformance.Pass {
			t.Errorf("%s: %s %+v %s", r.Name, r.Outcome, r.Breaches, r.Reason)
		}
	}
	if len(report.Results) != len(conformance.Checks()) {
		t.Errorf("%v of %d", report, len(conformance.Checks()))
	}
}

func TestServicesAreCalledOverTLS(t *testing.T) {
	known := httptest.NewTLSServer(http.NotFoundHandler()) // only its certificate is used
	defer known.Close()
	secured := grpc.Creds(credentials.NewServerTLSFromCert(&known.TLS.Certificates[0]))
	backend := startReference(t)
	o := options(t, backend, startFaulty(t, backend, fault{}, secured))
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	for name, settings := range map[string]*tls.Config{"known": {RootCAs: roots}, "unknown": {}, "none": nil} {
		o.TLS, o.Fixtures.Revocable = settings, backend.revocable(t)
		report, err := conformance.Run(t.Context(), o)
		testkit.Must(t, err)
		if good := report.Passed == len(o.Checks); good != (name == "known") || !good && report.Passed > 0 {
			t.Errorf("%s: %v", name, report)
		}
	}
}

func TestNoCheckPassesWithoutAServer(t *testing.T) {
	report, err := conformance.Run(t.Context(), options(t, startReference(t), "127.0.0.1:1"))
	testkit.Must(t, err)
	for _, r := range report.Results {
		if r.Outcome != conformance.Fail || len(r.Breaches) == 0 {
			t.Errorf("%s: %s %s", r.Name, r.Outcome, r.Reason)
		}
	}
}

// The contract leaves it to the service whether a concurrent call with a key is ABORTED, as in the
// reference backend, or waits.
func TestConcurrentCallsMayWait(t *testing.T) {
	var mu sync.Mutex
	waiting := fault{unary: onKeys(func(c *intercepted, _ string) (proto.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		return c.pass(c.request)
	})}
	backend := startReference(t)
	o := options(t, backend, startFaulty(t, backend, waiting))
	var err error
	o.Checks, err = conformance.Select("incident/*/idempotent-concurrent")
	testkit.Must(t, err)
	report, err := conformance.Run(t.Context(), o)
	testkit.Must(t, err)
	if report.Passed != len(o.Checks) {
		t.Errorf("%+v", report.Results)
	}
}

// A response may lack everything that a check reads: the check fails, and the run goes on.
func TestEmptyResponsesAreBreaches(t *testing.T) {
	empty := fault{unary: func(c *intercepted) (proto.Message, error) { return c.method.NewResponse(), nil }}
	backend := startReference(t)
	report, err := conformance.Run(t.Context(), options(t, backend, startFaulty(t, backend, empty)))
	testkit.Must(t, err)
	if len(report.Results) != len(conformance.Checks()) || report.Failed < report.Passed {
		t.Error(report)
	}
}

func TestImpossibleChecksHaveAReason(t *testing.T) {
	backend := startReference(t)
	const skipped, unproved = conformance.Skip, conformance.Unproved
	const unknown = "5f0c8a34-1d3b-4a52-9c59-0f5f3f1b7a11"
	for _, test := range []struct {
		name   string
		change func(o *conformance.Options)
		check  string
		want   conformance.Outcome
		why    string
	}{
		{"writes", func(o *conformance.Options) { o.Writes = false }, "incident/CreateIncident/title", skipped,
			"not allowed without --writes"},
		{"an address", func(o *conformance.Options) { o.Addresses["fleet"] = "" }, "fleet/ListServers/order", skipped,
			"no address of the fleet service"},
		{"another address", func(o *conformance.Options) { o.Addresses["audit"] = "" }, "incident/CreateIncident/audited", skipped,
			"no address of the audit"},
		{"a resource", func(o *conformance.Options) { o.Fixtures.Teams[1].ID = unknown },
			"monitoring/ListMonitorChecks/foreign-id", unproved, "needs a monitor of team " + unknown},
		{"the number of rows", func(o *conformance.Options) { o.Fixtures.Teams[1].Rows = nil },
			"incident/ListStatusPages/complete", unproved, "needs rows.status_pages of team " + second},
		{"a disabled monitor", func(o *conformance.Options) { o.Fixtures.Teams[0] = o.Fixtures.Teams[1] },
			"monitoring/ListMonitors/complete", unproved, "with `enabled` false"},
		{"a linked component", func(o *conformance.Options) { o.Fixtures.Teams[0].LinkedComponent = "" },
			"incident/GetStatusPage/linked-component", unproved, "needs linked_component and linked_monitor of team " + first},
		{"the age of metrics", func(o *conformance.Options) { o.Fixtures.Teams[0].MetricsDays = 0 },
			"fleet/GetServerMetrics/month", unproved, "needs metrics_days of team " + first},
		{"tokens of two plans", func(o *conformance.Options) { o.Fixtures.Tokens = o.Fixtures.Tokens[:2] },
			"identity/ResolveToken/plan", unproved, "needs two tokens with different plans"},
		{"a token to revoke", func(o *conformance.Options) { o.Fixtures.Revocable = conformance.Revocable{} },
			"identity/WatchRevocations/revocation", unproved, "needs revoke in the fixtures"},
		{"a command that revokes", func(o *conformance.Options) {
			o.Fixtures.Revocable.Revoke = func(context.Context) error { return errors.New("no such file") }
		}, "identity/WatchRevocations/revocation", unproved, "that succeeds: no such file"},
		{"a token that is not revoked", func(o *conformance.Options) { o.Fixtures.Revocable.Token = o.Fixtures.RevokedToken },
			"identity/WatchRevocations/revocation", unproved, "not revoked yet"},
		{"tokens", func(o *conformance.Options) { o.Fixtures.Teams[0].Token, o.Fixtures.Teams[1].Token = nil, nil },
			"identity/ResolveToken/known", unproved, "needs a token"},
		{"the revoked token", func(o *conformance.Options) { o.Fixtures.RevokedToken = nil }, "identity/ResolveToken/revoked", unproved,
			"needs revoked_token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, backend, backend.address)
			test.change(&o)
			var err error
			o.Checks, err = conformance.Select(test.check)
			testkit.Must(t, err)
			report, err := conformance.Run(t.Context(), o)
			testkit.Must(t, err)
			counted := map[conformance.Outcome]int{skipped: report.Skipped, unproved: report.Unproved}
			if r := report.Results[0]; r.Outcome != test.want || !strings.Contains(r.Reason, test.why) || counted[test.want] != 1 {
				t.Errorf("%s %s %+v", r.Outcome, r.Reason, r.Breaches)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	backend := startReference(t)
	if _, err := conformance.Run(ctx, options(t, backend, backend.address)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestChecksAreSelectedByPattern(t *testing.T) {
	for pattern, want := range map[string]int{
		"*": len(conformance.Checks()), "fleet/ListServers/order": 1, "*/Health/serving": len(contract.Services()), "identity/*s/deadline": 1,
	} {
		if selected, err := conformance.Select(pattern); err != nil || len(selected) != want {
			t.Errorf("%s: %d, %v", pattern, len(selected), err)
		}
	}
	for _, pattern := range []string{"", "fleet", "fleet/ListServers/orde", "f.*", "("} {
		if selected, err := conformance.Select(pattern); err == nil {
			t.Errorf("%q selects %d", pattern, len(selected))
		}
	}
}

func TestCheckNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Checks() {
		if seen[c.Name] || strings.Count(c.Name, "/") != 2 || c.Sentence == "" || !strings.HasSuffix(c.Sentence, ".") {
			t.Errorf("%s: %q", c.Name, c.Sentence)
		}
		seen[c.Name] = true
	}
}
