package wiring_test

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/test/metricspage"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
	"opsgate/ratelimit/redisstore/redistest"
)

// scrape returns the metrics of a gateway with all features enabled.
func scrape(t *testing.T) string {
	t.Helper()
	services := servicestest.Start(t)
	c, authority := everything(t, services.Address)
	c.RateLimit.Redis.Addresses, c.Tracing.Endpoint = []string{redistest.Start(t).Addr()}, tracingtest.Start(t).HTTP
	c.Admin.TLS = config.AdminTLS{}
	r := &running{token: services.Token}
	r.run(t, wiring.Options{
		Loaded: c, Logger: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar),
		Load: func() (config.Loaded, error) {
			return config.Loaded{}, config.Problems{{Key: "listen", Text: "is refused"}}
		},
	})
	s := &secure{running: r, authority: authority}
	client := s.client(t, true)
	for _, path := range []string{"/v1/servers", "/v1/nothing"} {
		if _, _, err := s.do(client, "GET", path, nil); err != nil {
			t.Fatal(err)
		}
	}
	waits := regexp.MustCompile(`opsgate_http_request_wait_seconds_count\{part="(identity|limiter|service)"\} [1-9]`)
	var metrics string
	testkit.Eventually(t, "both requests, their waits and a refused reload are counted", func() bool {
		metrics = r.get(t, r.AdminAddress(), "/metrics").body
		return strings.Contains(metrics, `cause="route"`) && strings.Contains(metrics, "opsgate_config_refused{") &&
			len(waits.FindAllString(metrics, -1)) == 3
	})
	if strings.Contains(metrics, services.Token) {
		t.Error("the token is in the metrics")
	}
	r.finish(t)
	return metrics
}

// A family is a metric family, as exposed or as documented.
type family struct {
	Kind   string   // of Prometheus
	Labels []string // sorted
}

func TestMetricsMatchTheirDocumentation(t *testing.T) {
	metrics := scrape(t)
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("the linter of Prometheus reports %v, %+v", err, problems)
	}
	page := metricspage.Read(t)
	exposed, values := familiesOf(metrics)
	documented, labelValues := rowsOf(page)
	if diff := cmp.Diff(documented, exposed); diff != "" {
		t.Errorf("documented (-), exposed (+); `make generate` documents what is exposed from the start: %s", diff)
	}
	for label, listed := range labelValues {
		for _, value := range values[label] {
			if !slices.Contains(listed, value) {
				t.Errorf("%s is %q, which is not documented; documented are %q", label, value, listed)
			}
		}
	}
	if len(labelValues) < 20 {
		t.Errorf("only %d labels have documented values: the table was not parsed", len(labelValues))
	}
	for _, word := range regexp.MustCompile(`\b(?:go|process)_[a-z_]+[a-z]`).FindAllString(page, -1) {
		if !strings.Contains(metrics, "\n# TYPE "+word+" ") {
			t.Errorf("there is no %s", word)
		}
	}
}

// familiesOf parses the metrics of opsgate in the text format of Prometheus. values has the label
// values by "family label".
func familiesOf(metrics string) (families map[string]family, values map[string][]string) {
	families, values = make(map[string]family), make(map[string][]string)
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (opsgate_\w+) (\w+)$`).FindAllStringSubmatch(metrics, -1) {
		name, kind := match[1], match[2]
		labels := make(map[string]bool)
		for _, series := range regexp.MustCompile(`(?m)^`+name+`(?:_count)?\{(.*)\} `).FindAllStringSubmatch(metrics, -1) {
			for _, pair := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(series[1], -1) {
				labels[pair[1]] = true
				values[name+" "+pair[1]] = append(values[name+" "+pair[1]], pair[2])
			}
		}
		families[name] = family{kind, slices.Sorted(maps.Keys(labels))}
	}
	return families, values
}

// rowsOf parses the tables of the documentation in the same way.
func rowsOf(page string) (families map[string]family, values map[string][]string) {
	families, values = make(map[string]family), make(map[string][]string)
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, match := range regexp.MustCompile("(?m)^\\| `(opsgate_\\w+)`( histogram)? \\|([^|]*)\\|").FindAllStringSubmatch(page, -1) {
		kind := "gauge"
		switch {
		case match[2] != "":
			kind = "histogram"
		case strings.HasSuffix(match[1], "_total"):
			kind = "counter"
		}
		var labels []string
		for _, label := range regexp.MustCompile("`(\\w+)`(?: \\(([^)]*)\\))?").FindAllStringSubmatch(match[3], -1) {
			labels = append(labels, label[1])
			for _, value := range quoted.FindAllStringSubmatch(label[2], -1) {
				values[match[1]+" "+label[1]] = append(values[match[1]+" "+label[1]], value[1])
			}
		}
		slices.Sort(labels)
		families[match[1]] = family{kind, labels}
	}
	return families, values
}
