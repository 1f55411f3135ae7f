package deploytest

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/testkit"
)

// rule is a recording rule or an alert.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (list []rule) {
	t.Helper()
	for _, path := range paths(t, "prometheus/rules/*.yaml") {
		var file struct{ Groups []struct{ Rules []rule } }
		testkit.Must(t, yaml.Unmarshal([]byte(read(t, path)), &file))
		for _, g := range file.Groups {
			list = append(list, g.Rules...)
		}
	}
	return list
}

func alerts(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(rules(t), func(r rule) bool { return r.Alert == "" })
}

func ruleQueries(t *testing.T) (list []query) {
	t.Helper()
	for _, r := range rules(t) {
		list = append(list, query{r.Alert + r.Record, r.Expr})
	}
	return list
}

func TestAlertsHaveRunbooks(t *testing.T) {
	named := map[string]bool{}
	for _, a := range alerts(t) {
		if named[a.Alert] {
			t.Errorf("there are two alerts %s", a.Alert)
		}
		named[a.Alert] = true
		path, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		if !strings.HasPrefix(path, "docs/operate/runbooks/") || !slices.Contains(anchors(t, filepath.Join(root, path)), anchor) {
			t.Errorf("%s: there is no %q", a.Alert, a.Annotations["runbook_url"])
		}
		if !strings.Contains(read(t, root+"/docs/operate/runbooks/README.md"), "`"+a.Alert+"`") {
			t.Errorf("the list of runbooks does not have %s", a.Alert)
		}
	}
}

// Each alert has a case in which it fires and one in which it does not.
func TestEachAlertHasCases(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, path := range paths(t, "prometheus/tests/*.yaml") {
		var file struct {
			Tests []struct {
				Cases []struct {
					Name     string           `yaml:"alertname"`
					Expected []map[string]any `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		testkit.Must(t, yaml.Unmarshal([]byte(read(t, path)), &file))
		for _, test := range file.Tests {
			for _, c := range test.Cases {
				if len(c.Expected) > 0 {
					fires[c.Name] = true
				} else {
					silent[c.Name] = true
				}
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: a case in which it fires: %t; in which it does not: %t", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
}

// Prometheus accepts its configurations, which name all rules. `make check-rules` checks the rules
// themselves, and runs their tests.
func TestPrometheusConfigurationsAreValid(t *testing.T) {
	program := testkit.Find(t, "promtool")
	run(t, exec.CommandContext(t.Context(), program, "check", "config", "--syntax-only", root+"/deploy/prometheus/prometheus.yaml"))
	run(t, exec.CommandContext(t.Context(), program, "check", "config", "--syntax-only", composeDir+"/prometheus/prometheus.yml"))
}
