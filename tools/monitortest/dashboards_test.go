package monitortest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// dashboard has the tested fields of Grafana's model.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []panel
	Links         []link
	Annotations   struct {
		List []struct {
			Name, Expr string
			Datasource source
		}
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
			Datasource *source
		}
	}
}

type panel struct {
	ID          int `json:"id"`
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Datasource  *source
	FieldConfig struct{ Defaults struct{ Unit string } }
	Links       []link
	Targets     []struct {
		RefID      string `json:"refId"`
		Expr       string
		Datasource source
	}
}

type source struct {
	Type string
	UID  string `json:"uid"`
}

type link struct{ Title, URL string }

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, path := range files(t, "grafana/dashboards/*.json") {
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

func TestDashboardsCanBeImported(t *testing.T) {
	uids := map[string]bool{}
	for name, d := range dashboards(t) {
		if d.UID != name || uids[d.UID] || d.Title == "" || d.Description == "" || d.SchemaVersion < 39 {
			t.Errorf("%s: %q, %q, %d", name, d.UID, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = true
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
		}
		if !slices.Equal(variables, []string{"datasource", "job", "instance", "docs"}) {
			t.Errorf("%s: the variables are %q", name, variables)
		}
		uses := regexp.MustCompile(`\$\{?(\w+)`)
		for _, used := range uses.FindAllStringSubmatch(read(t, root+"/deploy/grafana/dashboards/"+name+".json"), -1) {
			if !strings.HasPrefix(used[1], "__") && !slices.Contains(variables, used[1]) {
				t.Errorf("%s: there is no variable %s", name, used[1])
			}
		}
	}
}

// A dashboard uses the data source that is selected during its import.
func TestDashboardsUseTheSelectedDataSource(t *testing.T) {
	for name, d := range dashboards(t) {
		checkSource := func(where string, s source) {
			if s != (source{"prometheus", "${datasource}"}) {
				t.Errorf("%s: %s has the data source %v", name, where, s)
			}
		}
		for _, p := range d.Panels {
			if p.Type != "row" {
				checkSource(p.Title, *p.Datasource)
			}
			for _, target := range p.Targets {
				checkSource(p.Title, target.Datasource)
			}
		}
		for _, a := range d.Annotations.List[1:] {
			checkSource(a.Name, a.Datasource)
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				checkSource(v.Name, *v.Datasource)
			}
		}
	}
}

func TestPanelsHaveDescriptions(t *testing.T) {
	for name, d := range dashboards(t) {
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" {
				t.Errorf("%s: the panel %d %q", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: %q has no description, no unit or no query", name, p.Title)
			}
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if refs[target.RefID] || target.Expr == "" {
					t.Errorf("%s: %q has the query %q twice, or without an expression", name, p.Title, target.RefID)
				}
				refs[target.RefID] = true
			}
			for _, l := range p.Links {
				path, anchor, _ := strings.Cut(strings.TrimPrefix(l.URL, "${docs}/"), "#")
				if !slices.Contains(anchors(t, filepath.Join(root, path)), anchor) {
					t.Errorf("%s: %q links to %s", name, p.Title, l.URL)
				}
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	for name, d := range dashboards(t) {
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			g := p.GridPos
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s: %q is at %+v", name, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q overlaps %q", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

func TestRowsOfTheOverview(t *testing.T) {
	var rows []string
	for _, p := range dashboards(t)["opsgate-overview"].Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	want := []string{"Now", "Refused requests", "Latency", "Failures", "Capacity and error budgets"}
	if !slices.Equal(rows, want) {
		t.Errorf("got %q", rows)
	}
}
