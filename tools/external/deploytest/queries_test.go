package deploytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// query is a PromQL query of a rule, dashboard or runbook, and its location.
type query struct{ where, text string }

// catalog has the metrics that queries may use: those of gateways, of Prometheus, and of recording
// rules.
type catalog map[string]metric

// targetLabels are the labels that Prometheus adds to each target.
func targetLabels() []string { return []string{"job", "instance", "namespace"} }

func TestQueriesUseExistingMetrics(t *testing.T) {
	known := catalog(scraped(t))
	known["up"] = metric{}
	known["opsgate_upstream_request_duration_seconds_count"].add("code", "PermissionDenied") // the reference backend denies nothing
	known["ALERTS"] = metric{"alertstate": {"firing": true}, "alertname": {}, "severity": {}}
	for _, r := range rules(t) {
		if r.Alert != "" {
			known["ALERTS"].add("alertname", r.Alert)
		} else {
			known[r.Record] = metric{}
		}
	}
	for _, q := range slices.Concat(ruleQueries(t), dashboardQueries(t), runbookQueries(t), namedMetrics(t)) {
		t.Run(q.where, func(t *testing.T) { known.check(t, q.text) })
	}
}

func TestQueriesOfUnknownMetricsAndLabelsAreFound(t *testing.T) {
	known := catalog{"requests_total": {"code": {"200": true}}, "other": {}}
	for text, wrong := range map[string]bool{
		`sum by (job, code) (rate(requests_total{code=~"2..", job="$job"}[5m]))`: false,
		`requests`:                                    true,
		`requests_total{status="200"}`:                true,
		`requests_total{code="404"}`:                  true,
		`requests_total{code=~"5.."}`:                 true,
		`sum by (status) (requests_total)`:            true,
		`requests_total / on (status) requests_total`: true,
		`sum without (status) (requests_total)`:       true,
		`sum(other) by (code)`:                        true,
	} {
		if problems := known.problems(t, text); (len(problems) > 0) != wrong {
			t.Errorf("%s: %q", text, problems)
		}
	}
}

func (c catalog) check(t *testing.T, text string) {
	t.Helper()
	for _, problem := range c.problems(t, text) {
		t.Errorf("%s\nin %s", problem, text)
	}
}

// problems returns the errors of a query, with or without Grafana's variables.
func (c catalog) problems(t *testing.T, text string) (list []string) {
	t.Helper()
	text = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m").Replace(text)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			list = append(list, c.selectorProblems(n)...)
		case *parser.AggregateExpr:
			list = append(list, c.labelProblems(n.Expr, n.Grouping)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				list = append(list, c.labelProblems(n, n.VectorMatching.MatchingLabels)...)
				list = append(list, c.labelProblems(n, n.VectorMatching.Include)...)
			}
		}
		return nil
	})
	return list
}

func (c catalog) selectorProblems(s *parser.VectorSelector) (list []string) {
	m, exists := c[s.Name]
	if !exists {
		return []string{s.Name + " is not exposed"}
	}
	for _, matcher := range s.LabelMatchers {
		switch {
		case matcher.Name == model.MetricNameLabel, slices.Contains(targetLabels(), matcher.Name):
		case m[matcher.Name] == nil:
			list = append(list, s.Name+" has no label "+matcher.Name)
		case !matches(m[matcher.Name], matcher):
			list = append(list, s.Name+" has no value for "+matcher.String())
		}
	}
	return list
}

// matches reports whether a matcher selects an existing value.
func matches(values map[string]bool, matcher *labels.Matcher) bool {
	if matcher.Type == labels.MatchNotEqual || matcher.Type == labels.MatchNotRegexp {
		return true // it may exclude values that did not occur
	}
	for value := range values {
		if matcher.Matches(value) {
			return true
		}
	}
	return false
}

// labelProblems returns the labels that no metric in an expression has.
func (c catalog) labelProblems(expr parser.Expr, names []string) (list []string) {
	for _, name := range names {
		if slices.Contains(targetLabels(), name) {
			continue
		}
		found := false
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, is := node.(*parser.VectorSelector); is && c[s.Name][name] != nil {
				found = true
			}
			return nil
		})
		if !found {
			list = append(list, "there is no label "+name)
		}
	}
	return list
}
