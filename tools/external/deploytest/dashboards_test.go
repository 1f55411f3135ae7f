package deploytest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// dashboard has the fields of Grafana's model that hold queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string
		}
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, path := range paths(t, "grafana/dashboards/*.json") {
		var d dashboard
		testkit.Must(t, json.Unmarshal([]byte(read(t, path)), &d))
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = d
	}
	return all
}

func dashboardQueries(t *testing.T) (list []query) {
	t.Helper()
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				list = append(list, query{name + "/" + p.Title + " " + target.RefID, target.Expr})
			}
		}
		for _, a := range d.Annotations.List[1:] { // the first is Grafana's own
			list = append(list, query{name + "/" + a.Name, a.Expr})
		}
		for _, v := range d.Templating.List {
			if q, is := v.Query.(map[string]any); is {
				text, _ := q["query"].(string)
				parts := values.FindStringSubmatch(text)
				if parts == nil {
					t.Fatalf("%s: the variable %s has the query %q", name, v.Name, text)
				}
				list = append(list, query{name + "/" + v.Name, "count by (" + parts[2] + ") (" + parts[1] + ")"})
			}
		}
	}
	return list
}
