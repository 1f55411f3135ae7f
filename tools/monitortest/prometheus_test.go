package monitortest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

const firing = "an alert fires only after minutes"

// withoutData has the queries that return nothing here, and why.
func withoutData() map[string]string {
	return map[string]string{
		"opsgate-gateway/Mode of the limiter B": "the breaker of Redis is closed",
		"opsgate-gateway/Memory C":              "no memory limit is set",
		"opsgate-gateway/Alerts":                firing,
		"opsgate-overview/Alerts":               firing,
		"opsgate-tenants/Alerts":                firing,
	}
}

// TestPanelsHaveData evaluates the queries of the dashboards and of the rules in a Prometheus that scraped a gateway by OpenMetrics, its
// default. There the values of the labels le and quantile are floats, such as "1.0".
func TestPanelsHaveData(t *testing.T) {
	program := testkit.Find(t, "prometheus")
	s, dir, address := startSystem(t), t.TempDir(), testkit.FreeAddress(t)
	deploy, err := filepath.Abs(root + "/deploy/prometheus/rules")
	testkit.Must(t, err)
	write(t, filepath.Join(dir, "prometheus.yaml"), fmt.Sprintf(`global: {scrape_interval: 500ms, evaluation_interval: 500ms}
scrape_configs: [{job_name: opsgate, static_configs: [{targets: [%q], labels: {namespace: test}}]}]
rule_files: [%q]
`, strings.TrimPrefix(s.admin, "http://"), deploy+"/*.yaml"))
	testkit.Start(t, exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+dir, "--web.listen-address="+address))
	prometheus := "http://" + address
	ready := func(query string) func() bool {
		return func() bool {
			s.use(t)
			return len(result(t, s.client, prometheus, query)) > 0
		}
	}
	testkit.Eventually(t, "Prometheus has scraped", ready("count_over_time(up[5m]) > 5"))
	variables := strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m", "$__interval", "10s", "$job", ".*", "$instance", ".*")
	data := func(q query) []json.RawMessage { return result(t, s.client, prometheus, variables.Replace(q.text)) }
	for _, q := range dashboardQueries(t) { // at once, before minutes have passed
		if withoutData()[q.where] == firing && len(data(q)) > 0 {
			t.Errorf("%s has data, though it should not: %s", q.where, firing)
		}
	}
	s.openBreaker(t)
	testkit.Eventually(t, "Prometheus has scraped the outage", ready(`count_over_time(opsgate_upstream_breaker_state{service="fleet", state="open"}[5m]) > 12`))
	for _, q := range dashboardQueries(t) {
		switch reason, listed := withoutData()[q.where]; {
		case reason == firing:
		case !listed && len(data(q)) == 0:
			t.Errorf("%s has no data: %s", q.where, q.text)
		case listed && len(data(q)) > 0:
			t.Errorf("%s has data, though it should not: %s", q.where, reason)
		}
	}
	for _, q := range ruleQueries(t) {
		result(t, s.client, prometheus, q.text) // most alerts select nothing: their parts are checked by TestQueriesUseExistingMetrics
	}
}

// result returns the series of a query. It fails the test if Prometheus refuses the query; before Prometheus answers, there are none.
func result(t *testing.T, client *http.Client, prometheus, query string) []json.RawMessage {
	t.Helper()
	body := get(t, client, prometheus+"/api/v1/query?query="+url.QueryEscape(query), "")
	if body == "" || strings.HasPrefix(body, "Service Unavailable") {
		return nil
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	testkit.Must(t, json.Unmarshal([]byte(body), &answer))
	if answer.Status != "success" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	return answer.Data.Result
}
