package metricspage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/testkit"
)

// Page is the path of the page in the repository.
const Page = "docs/operate/metrics.md"

// Read returns the page.
func Read(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(path(t))
	testkit.Must(t, err)
	return string(content)
}

// path returns the path of the page from the folder of the test.
func path(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	testkit.Must(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, Page)); err == nil {
			return filepath.Join(dir, Page)
		}
	}
	t.Fatalf("there is no %s", Page)
	return ""
}

// Check compares the table of a program, opsgate or opsbackend, with the metrics in its registry,
// or writes it.
func Check(t *testing.T, program string, registry *prometheus.Registry, write bool) {
	t.Helper()
	begin, end := "<!-- metrics of "+program+" -->\n", "<!-- end of the metrics of "+program+" -->\n"
	page := Read(t)
	before, rest, begun := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the metrics of %s", Page, program)
	}
	want := before + begin + table(t, program, registry) + end + after
	switch {
	case want == page:
	case write:
		testkit.Must(t, os.WriteFile(path(t), []byte(want), 0o600))
	default:
		t.Errorf("the table in %s differs from the registered metrics: run `make generate`\n%s", Page, diff.Diff(page, want))
	}
}

// A metric is a family of metrics: one row of the table.
type metric struct {
	name, help, kind string
	labels           map[string]map[string]bool // values by label
}

// description matches the form of prometheus.Desc, which has no accessors.
var description = regexp.MustCompile(
	`^Desc\{fqName: "(\w+)", help: ("(?:[^"\\]|\\.)*"), unit: "\w*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

var constLabel = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)

// table returns the metrics of a program as Markdown, by name.
func table(t *testing.T, program string, registry *prometheus.Registry) string {
	t.Helper()
	metrics := gather(t, program, registry)
	text := new(strings.Builder)
	text.WriteString("| metric | meaning |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		labels, values := m.labelsText()
		help := strings.ReplaceAll(m.help, "|", `\|`)
		fmt.Fprintf(text, "| `%s%s`%s | %s%s |\n", name, labels, m.mark(t), help, values)
	}
	return text.String()
}

// CheckSeries compares the series of a program that has worked with the table of one that has not: a
// metric has the type of its row, and a label of which the row lists the values has no others.
func CheckSeries(t *testing.T, program string, atStart, later *prometheus.Registry) {
	t.Helper()
	rows := gather(t, program, atStart)
	for name, m := range gather(t, program, later) {
		row := rows[name]
		if row == nil || row.mark(t) != m.mark(t) {
			t.Errorf("%s is a %s, which is not documented", name, m.kind)
			continue
		}
		for label, values := range m.labels {
			listed := row.listed(label)
			for value := range values {
				if len(listed) > 0 && !slices.Contains(listed, value) {
					t.Errorf("%s{%s=%q} is not documented; make its series at the start, as those of %q", name, label, value, listed)
				}
			}
		}
	}
}

// gather returns the metrics of a program by name.
func gather(t *testing.T, program string, registry *prometheus.Registry) map[string]*metric {
	t.Helper()
	metrics := registered(t, program, registry)
	addSeries(t, metrics, registry)
	return metrics
}

// registered returns the metrics of a program that its collectors describe.
func registered(t *testing.T, program string, registry *prometheus.Registry) map[string]*metric {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	metrics := make(map[string]*metric)
	for d := range descriptions {
		match := description.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("the form of a description is not that of the library's version before: %s", d)
		}
		name := match[1]
		if !strings.HasPrefix(name, program+"_") {
			continue // of the process
		}
		m := metrics[name]
		if m == nil {
			help, err := strconv.Unquote(match[2])
			if err != nil || help == "" {
				t.Fatalf("%s has no help: %v", name, err)
			}
			m = &metric{name: name, help: help, labels: make(map[string]map[string]bool)}
			metrics[name] = m
		}
		for _, pair := range constLabel.FindAllStringSubmatch(match[3], -1) {
			m.add(pair[1], strings.Trim(pair[2], `"`))
		}
		for label := range strings.SplitSeq(match[4], ",") {
			if label != "" {
				m.add(label)
			}
		}
	}
	return metrics
}

// addSeries adds types and values of labels from series.
func addSeries(t *testing.T, metrics map[string]*metric, registry *prometheus.Registry) {
	t.Helper()
	families, err := registry.Gather()
	testkit.Must(t, err)
	for _, family := range families {
		m := metrics[family.GetName()]
		if m == nil {
			continue
		}
		m.kind = strings.ToLower(family.GetType().String())
		for _, series := range family.GetMetric() {
			for _, pair := range series.GetLabel() {
				m.add(pair.GetName(), pair.GetValue())
			}
		}
	}
}

func (m *metric) add(label string, values ...string) {
	if m.labels[label] == nil {
		m.labels[label] = make(map[string]bool)
	}
	for _, value := range values {
		m.labels[label][value] = true
	}
}

// mark marks a histogram. Of others the name has the type: _total is a counter, anything else a
// gauge. Without a series, _seconds is a histogram; a test of a gateway that has served requests
// checks it.
func (m *metric) mark(t *testing.T) string {
	t.Helper()
	isTotal := strings.HasSuffix(m.name, "_total")
	if m.kind != "" && isTotal != (m.kind == "counter") {
		t.Errorf("the name of %s is not that of a %s", m.name, m.kind)
	}
	if m.kind == "histogram" || m.kind == "" && strings.HasSuffix(m.name, "_seconds") {
		return " histogram"
	}
	return ""
}

// maxValues is the number of values of the largest label whose values are listed. Only the label of
// operations has more.
const maxValues = 10

// labelsText returns the labels, as in a query, and the values of those that have several.
func (m *metric) labelsText() (labels, values string) {
	if len(m.labels) == 0 {
		return "", ""
	}
	names, text := slices.Sorted(maps.Keys(m.labels)), new(strings.Builder)
	for _, label := range names {
		if listed := m.listed(label); len(listed) > 0 {
			fmt.Fprintf(text, " `%s`: `%s`.", label, strings.Join(listed, "`, `"))
		}
	}
	return "{" + strings.Join(names, ",") + "}", text.String()
}

// listed returns the values of a label if it has several. Values of limit and policy are names from
// the configuration, those of service the same for all metrics.
func (m *metric) listed(label string) []string {
	values := slices.Sorted(maps.Keys(m.labels[label]))
	if len(values) < 2 || len(values) > maxValues || slices.Contains([]string{"limit", "policy", "service"}, label) {
		return nil
	}
	return values
}
