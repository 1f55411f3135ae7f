package deploytest

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"opsgate/backendclient/testkit"
)

const chartDir = root + "/deploy/helm/opsgate"

// release is the rendered chart.
type release struct {
	notes   string
	objects []runtime.Object
}

// render renders the chart and decodes all objects strictly: an unknown field fails the test.
func render(t *testing.T, values chartutil.Values) release {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	testkit.Must(t, err)
	rendered, err := files(loaded, values)
	testkit.Must(t, err)
	return parse(t, rendered)
}

// parse decodes the rendered files.
func parse(t *testing.T, files map[string]string) release {
	t.Helper()
	var r release
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = files[name]
			continue
		}
		for document := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			if strings.TrimSpace(document) != "" {
				r.objects = append(r.objects, decode(t, document))
			}
		}
	}
	return r
}

// files renders the templates. It returns an error for values that violate the chart's schema.
func files(loaded *chart.Chart, values chartutil.Values) (map[string]string, error) {
	all, err := renderValues(loaded, values)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(loaded, all)
}

func renderValues(loaded *chart.Chart, values chartutil.Values) (chartutil.Values, error) {
	return chartutil.ToRenderValues(loaded, values,
		chartutil.ReleaseOptions{Name: "prod", Namespace: "edge", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
}

func decode(t *testing.T, document string) runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoringv1.AddToScheme, gatewayv1.Install} {
		testkit.Must(t, add(known))
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := strict.Decode([]byte(document), nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return object
}

// only returns the only object of a kind.
func only[T runtime.Object](t *testing.T, r release) T {
	t.Helper()
	list := all[T](r)
	if len(list) != 1 {
		t.Fatalf("there are %d %T", len(list), *new(T))
	}
	return list[0]
}

func all[T runtime.Object](r release) (list []T) {
	for _, object := range r.objects {
		if one, is := object.(T); is {
			list = append(list, one)
		}
	}
	return list
}

// eachValues returns the test values by name of their file.
func eachValues(t *testing.T) map[string]chartutil.Values {
	t.Helper()
	paths, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("%v, %v", paths, err)
	}
	each := map[string]chartutil.Values{}
	for _, path := range paths {
		values, err := chartutil.ReadValuesFile(path)
		testkit.Must(t, err)
		each[strings.TrimSuffix(filepath.Base(path), ".yaml")] = values
	}
	return each
}

// eachRelease runs a test on the chart rendered with each of the test values.
func eachRelease(t *testing.T, test func(t *testing.T, r release)) {
	t.Helper()
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) { test(t, render(t, values)) })
	}
}

func TestChartPassesLint(t *testing.T) {
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			for _, message := range lint.All(chartDir, values, "edge", true).Messages {
				if message.Severity >= support.WarningSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestREADMEDocumentsEachValue(t *testing.T) {
	values, err := chartutil.ReadValuesFile(chartDir + "/values.yaml")
	testkit.Must(t, err)
	readme := read(t, chartDir+"/README.md")
	for name, value := range values {
		if !strings.Contains(readme, "`"+name) {
			t.Errorf("the README does not document %s", name)
		}
		inner, is := value.(map[string]any)
		if !is || name == "config" || name == "resources" {
			continue
		}
		for key := range inner {
			if !strings.Contains(readme, "."+key+"`") && !strings.Contains(readme, "."+key+".") {
				t.Errorf("the README does not document %s.%s", name, key)
			}
		}
	}
}
