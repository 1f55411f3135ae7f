package deploytest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

const chartDir = root + "/deploy/helm/opsgate"

var update = flag.Bool("update", false, "write the golden files of the chart")

// render renders the chart, as helm template does, and returns its files by name. It returns an
// error for values that the chart refuses.
func render(t *testing.T, values chartutil.Values) (map[string]string, error) {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	testkit.Must(t, err)
	release := chartutil.ReleaseOptions{Name: "prod", Namespace: "edge", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(loaded, all)
}

// eachValues runs a test with each of the values in testdata.
func eachValues(t *testing.T, test func(t *testing.T, name string, values chartutil.Values)) {
	t.Helper()
	for _, name := range []string{"default", "fixed", "full"} {
		t.Run(name, func(t *testing.T) {
			values, err := chartutil.ReadValuesFile("testdata/values/" + name + ".yaml")
			testkit.Must(t, err)
			test(t, name, values)
		})
	}
}

// The objects of a release are those in the golden file, and Kubernetes knows all of their fields.
// `go test -run Release -update` writes the golden files. They have the name of each rule and
// dashboard, but not its text, which deploy has.
func TestRelease(t *testing.T) {
	eachValues(t, func(t *testing.T, name string, values chartutil.Values) {
		t.Helper()
		rendered, err := render(t, values)
		testkit.Must(t, err)
		got := new(strings.Builder)
		for _, file := range slices.Sorted(maps.Keys(rendered)) {
			if !strings.HasSuffix(file, "NOTES.txt") {
				for document := range strings.SplitSeq("\n"+rendered[file], "\n---\n") {
					writeObject(t, got, document)
				}
				continue
			}
			fmt.Fprintf(got, "# NOTES.txt\n%s\n", commented(rendered[file]))
		}
		golden := filepath.Join("testdata", "golden", name+".yaml")
		if *update {
			testkit.Must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
		}
		if diff := cmp.Diff(read(t, golden), got.String()); diff != "" {
			t.Errorf("the release differs from %s (-golden +rendered); go test -run Release -update accepts it:\n%s", golden, diff)
		}
	})
}

func commented(text string) string {
	return "# " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n# ")
}

// writeObject writes a document of the release, unless it is empty. An unknown field fails the
// test.
func writeObject(t *testing.T, to *strings.Builder, document string) {
	t.Helper()
	if document = strings.TrimSpace(document); document == "" {
		return
	}
	switch object := decode(t, document).(type) {
	case *monitoringv1.PrometheusRule:
		fmt.Fprintf(to, "---\n# PrometheusRule %s\n", object.Name)
		for _, group := range object.Spec.Groups {
			fmt.Fprintf(to, "#   %s: %d rules\n", group.Name, len(group.Rules))
		}
	case *corev1.ConfigMap:
		if object.Data["opsgate.yaml"] == "" {
			fmt.Fprintf(to, "---\n# ConfigMap %s: %q\n", object.Name, slices.Sorted(maps.Keys(object.Data)))
			return
		}
		fmt.Fprintf(to, "---\n%s\n", document)
	default:
		fmt.Fprintf(to, "---\n%s\n", document)
	}
}

func decode(t *testing.T, document string) runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	testkit.Must(t, errors.Join(scheme.AddToScheme(known), monitoringv1.AddToScheme(known), gatewayv1.Install(known)))
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := strict.Decode([]byte(document), nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return object
}

func TestChartPassesLint(t *testing.T) {
	eachValues(t, func(t *testing.T, _ string, values chartutil.Values) {
		t.Helper()
		for _, message := range lint.All(chartDir, values, "edge", true).Messages {
			if message.Severity >= support.WarningSev {
				t.Error(message)
			}
		}
	})
}

// The configuration of a release is valid for the program.
func TestChartConfigurationIsValid(t *testing.T) {
	eachValues(t, func(t *testing.T, _ string, values chartutil.Values) {
		t.Helper()
		rendered, err := render(t, values)
		testkit.Must(t, err)
		for document := range strings.SplitSeq("\n"+rendered["opsgate/templates/configmap.yaml"], "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			if config, is := decode(t, document).(*corev1.ConfigMap); is {
				checkConfiguration(t, config.Data["opsgate.yaml"], "/run/secrets/opsgate")
			}
		}
	})
}

// checkConfiguration runs opsgate check on a configuration whose secrets are mounted in a folder.
func checkConfiguration(t *testing.T, config, mounted string) {
	t.Helper()
	dir := t.TempDir()
	certstest.NewAuthority(t, "root").Write(t, dir, "gateway")
	config = strings.ReplaceAll(config, mounted, dir+"/secrets")
	for _, secret := range regexp.MustCompile(regexp.QuoteMeta(dir)+`/secrets/[\w./-]+`).FindAllString(config, -1) {
		switch filepath.Ext(secret) {
		case ".crt":
			write(t, secret, read(t, dir+"/cert.pem"))
		case ".key":
			write(t, secret, read(t, dir+"/key.pem"))
		default:
			write(t, secret, fmt.Sprintf("%048s", filepath.Base(secret))) // no two secrets are the same
		}
	}
	path := filepath.Join(dir, "opsgate.yaml")
	write(t, path, config)
	run(t, exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), "check", "--config", path))
}

// A wrong value is refused with a message that names it; the right one in its place is accepted.
// The configuration has the schema that `opsgate schema` prints: one case shows that the chart uses
// it.
func TestWrongValuesAreRefused(t *testing.T) {
	for _, c := range []struct{ wrong, want, right string }{
		{"replicacount: 3", "replicacount", "replicaCount: 3"},
		{"autoscaling: {min: 3}", "min", "autoscaling: {minReplicas: 3}"},
		{"admin: {existingSecret: {name: ''}}", "name", "admin: {existingSecret: {name: operators}}"},
		{"secrets: [{name: admin, secretName: x}]", "name", "secrets: [{name: backend, secretName: x}]"},
		{"prometheusRule: {objectives: {latencySeconds: 0.3}}", "latencySeconds", "prometheusRule: {objectives: {latencySeconds: 1}}"},
		{"extraVolumes: [{name: config, emptyDir: {}}]", "name", "extraVolumes: [{name: scratch, emptyDir: {}}]"},
		{"config: {http: {max_inflight: 10}}", "max_inflight", "config: {http: {max_in_flight: 10}}"},
		{"config: {admin: {token: secret}}", "token", "admin: {existingSecret: {name: operators, key: token}}"},
		{"config: {shutdown: {grace: 1h}}", "shutdown", "shutdown: {graceSeconds: 600}"},
		{"autoscaling: {minReplicas: 11}", "autoscaling.minReplicas: 11 is more than maxReplicas, which is 10", "autoscaling: {minReplicas: 10}"},
		{"resources: null", "resources.requests.cpu: is required", "autoscaling: {enabled: false}\nresources: null"},
		{"podDisruptionBudget: {maxUnavailable: 0}", "maxUnavailable: 0 allows no eviction", "podDisruptionBudget: {maxUnavailable: 1}"},
		{"ingress: {enabled: true}", "ingress.hosts: is required", "ingress: {enabled: true, hosts: ['*.example']}"},
		{"mcp: {enabled: true}\nconfig: {trusted_proxies: [10.0.0.0/8]}", "config.public_url: must be an https URL",
			"mcp: {enabled: true}\nconfig: {public_url: 'https://api.example', trusted_proxies: [10.0.0.0/8]}"},
		{"mcp: {enabled: true}\nconfig: {public_url: 'https://api.example'}", "config.trusted_proxies: must have the network",
			"mcp: {enabled: false}\nconfig: {public_url: 'https://api.example'}"},
		{"httpRoute: {enabled: true}", "httpRoute.parentRefs: is required", "httpRoute: {enabled: true, parentRefs: [{name: public}]}"},
	} {
		t.Run(c.wrong, func(t *testing.T) {
			values := func(text string) chartutil.Values {
				parsed, err := chartutil.ReadValues([]byte(text))
				testkit.Must(t, err)
				return parsed
			}
			if _, err := render(t, values(c.wrong)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if _, err := render(t, values(c.right)); err != nil {
				t.Errorf("%s: %v", c.right, err)
			}
		})
	}
}
