package monitortest

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// A query is PromQL that operators are given, and where it stands.
type query struct{ where, text string }

// A world is what queries may ask for: what gateways expose, what Prometheus adds, and what rules record.
type world map[string]metric

// targetLabels are those that Prometheus gives to all that it scrapes.
func targetLabels() []string { return []string{"job", "instance", "namespace"} }

func TestQueriesAskForWhatIsThere(t *testing.T) {
	known := world(scraped(t))
	known["up"] = metric{}
	known["ALERTS"] = metric{"alertstate": {"firing": true}, "alertname": {}, "severity": {}}
	for _, r := range rules(t) {
		if r.Alert != "" {
			known["ALERTS"].add("alertname", r.Alert)
		} else {
			known[r.Record] = metric{}
		}
	}
	for _, q := range slices.Concat(ruleQueries(t), dashboardQueries(t), runbookQueries(t), namedMetrics(t)) {
		t.Run(q.where, func(t *testing.T) { known.hold(t, q.text) })
	}
}

// Queries that cannot work are found.
func TestQueriesThatAskForNothingAreFound(t *testing.T) {
	known := world{"requests_total": {"code": {"200": true}}, "other": {}}
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

func (w world) hold(t *testing.T, text string) {
	t.Helper()
	for _, problem := range w.problems(t, text) {
		t.Errorf("%s\nin %s", problem, text)
	}
}

// problems says what is wrong with a query of ours or of Grafana's.
func (w world) problems(t *testing.T, text string) (list []string) {
	t.Helper()
	text = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m").Replace(text)
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			list = append(list, w.selectorProblems(n)...)
		case *parser.AggregateExpr:
			list = append(list, w.labelProblems(n.Expr, n.Grouping)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				list = append(list, w.labelProblems(n, n.VectorMatching.MatchingLabels)...)
				list = append(list, w.labelProblems(n, n.VectorMatching.Include)...)
			}
		}
		return nil
	})
	return list
}

func (w world) selectorProblems(s *parser.VectorSelector) (list []string) {
	m, there := w[s.Name]
	if !there {
		return []string{"nobody exposes " + s.Name}
	}
	for _, matcher := range s.LabelMatchers {
		switch {
		case matcher.Name == labels.MetricName, slices.Contains(targetLabels(), matcher.Name):
		case m[matcher.Name] == nil:
			list = append(list, s.Name+" has no label "+matcher.Name)
		case !matches(m[matcher.Name], matcher):
			list = append(list, s.Name+" never has "+matcher.String())
		}
	}
	return list
}

// matches reports whether a matcher selects a value that there is.
func matches(values map[string]bool, matcher *labels.Matcher) bool {
	if matcher.Type == labels.MatchNotEqual || matcher.Type == labels.MatchNotRegexp {
		return true // it may exclude what does not happen every day
	}
	for value := range values {
		if matcher.Matches(value) {
			return true
		}
	}
	return false
}

// labelProblems says which of the labels no metric in an expression has.
func (w world) labelProblems(expr parser.Expr, names []string) (list []string) {
	for _, name := range names {
		if slices.Contains(targetLabels(), name) {
			continue
		}
		found := false
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, is := node.(*parser.VectorSelector); is && w[s.Name][name] != nil {
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
