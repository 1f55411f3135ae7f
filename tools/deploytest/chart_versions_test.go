package deploytest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"opsgate/backendclient/testkit"
)

// A replaced pod loses its cached tokens and connections, so only a change that needs it may replace the pods.
func TestOnlyChangesThatNeedItReplacePods(t *testing.T) {
	const services = "config: {upstreams: {fleet: {address: 'dns:///fleet:9000'}}}"
	for name, test := range map[string]struct {
		before, after string
		replaces      bool
	}{
		"limits":            {"", "config: {rate_limit: {limits: [{requests: 10, per: 1s}]}}", false},
		"trusted proxies":   {"", "config: {trusted_proxies: [10.0.0.0/8]}", false},
		"a bound":           {"config: {http: {max_in_flight: 100}}", "config: {http: {max_in_flight: 1000000}}", false},
		"the log level":     {"", "config: {log: {level: debug}}", false},
		"a default spelled": {"", services, false},
		"replicas":          {"", "autoscaling: {maxReplicas: 20}", false},
		"a route":           {"", "httpRoute: {enabled: true, parentRefs: [{name: public}]}", false},
		"the hook":          {"", "checks: {hook: {enabled: false}}", false},
		"the log format":    {"", "config: {log: {format: text}}", true},
		"one of two keys":   {"config: {log: {level: debug}}", "config: {log: {level: debug, format: text}}", true},
		"a key removed":     {"config: {authn: {max_entries: 1000}}", "", true},
		"the Redis": {
			"config: {rate_limit: {store: redis, redis: {addresses: ['a:6379']}}}", "config: {rate_limit: {store: redis, redis: {addresses: ['b:6379']}}}", true,
		},
		"the image":     {"image: {tag: 1.2.3}", "image: {tag: 1.2.4}", true},
		"the digest":    {"", "image: {digest: 'sha256:" + strings.Repeat("0", 64) + "'}", true},
		"TLS for admin": {"", "admin: {tls: {existingSecret: {name: certificate}}}", true},
		// Old pods do not have the new file, so they must not read a configuration that names it.
		"a Secret's key":  {"", "admin: {existingSecret: {key: other}}", true},
		"a metrics token": {"", "admin: {metrics: {existingSecret: {name: metrics}}}", true},
		"another Secret":  {"", "secrets: [{name: trust, secretName: trust}]", true},
		"the environment": {"", "env: [{name: GOMEMLIMIT, value: 400MiB}]", true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := render(t, values(t, test.before)), render(t, values(t, test.after))
			if a, b := template(t, before), template(t, after); (a != b) != test.replaces {
				t.Errorf("before\n%s\nafter\n%s", a, b)
			}
			if same := configName(t, before) == configName(t, after); same == test.replaces {
				t.Errorf("the ConfigMaps are %s and %s", configName(t, before), configName(t, after))
			}
		})
	}
}

func TestConfigurationIsNotMountedWithSubPath(t *testing.T) {
	for _, m := range only[*appsv1.Deployment](t, render(t, chartutil.Values{})).Spec.Template.Spec.Containers[0].VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted with subPath, which the kubelet never updates", m.MountPath)
		}
	}
}

// template returns the pod template of the Deployment, whose changes replace the pods.
func template(t *testing.T, r release) string {
	t.Helper()
	text, err := json.Marshal(only[*appsv1.Deployment](t, r).Spec.Template)
	testkit.Must(t, err)
	return string(text)
}

func configName(t *testing.T, r release) string {
	t.Helper()
	return r.configMap(t, &only[*appsv1.Deployment](t, r).Spec.Template.Spec).Name
}

// cluster is what the templates can look up.
type cluster struct {
	objects []runtime.Object
	err     error
}

// GetClientFor implements [engine.ClientProvider].
func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource, known := map[string]string{"apps/v1/ReplicaSet": "replicasets", "v1/ConfigMap": "configmaps"}[apiVersion+"/"+kind]
	if !known || c.err != nil {
		return nil, false, errors.Join(errors.New("look up "+kind), c.err)
	}
	kinds := schema.FromAPIVersionAndKind(apiVersion, kind)
	return fake.NewSimpleDynamicClient(scheme.Scheme, c.objects...).Resource(kinds.GroupVersion().WithResource(resource)), true, nil
}

// renderIn renders an upgrade in a cluster.
func renderIn(t *testing.T, c cluster, values chartutil.Values) release {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	testkit.Must(t, err)
	all, err := renderValues(loaded, values)
	testkit.Must(t, err)
	rendered, err := engine.RenderWithClientProvider(loaded, all, c)
	testkit.Must(t, err)
	return parse(t, rendered)
}

// apply adds what a release leaves in a cluster: its ConfigMap, and the ReplicaSet of its Deployment.
func (c *cluster) apply(t *testing.T, r release) {
	t.Helper()
	d := only[*appsv1.Deployment](t, r)
	config := r.configMap(t, &d.Spec.Template.Spec)
	config.Namespace = "edge"
	c.objects = append(c.objects, config, &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Name + strings.TrimPrefix(config.Name, d.Name), Namespace: "edge", Labels: d.Spec.Template.Labels},
		Spec:       appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	})
}

// Helm deletes what leaves the release before the new pods are ready. Each pod that can start must find its configuration.
func TestOldPodsKeepTheirConfiguration(t *testing.T) {
	var c cluster
	first := renderIn(t, c, values(t, "image: {tag: '1'}\nconfig: {log: {level: debug}}"))
	c.apply(t, first)
	// This one never becomes ready; its pods exist.
	second := renderIn(t, c, values(t, "image: {tag: '2'}"))
	c.apply(t, second)
	other := render(t, values(t, "nameOverride: other\nimage: {tag: '1'}"))
	c.apply(t, other)
	third := renderIn(t, c, values(t, "image: {tag: '3'}"))
	kept := map[string]string{}
	for _, config := range all[*corev1.ConfigMap](third) {
		if config.Labels["app.kubernetes.io/name"] != "opsgate" {
			t.Errorf("%s is of another release", config.Name)
		}
		kept[config.Name] = config.Data["opsgate.yaml"]
	}
	if len(kept) != 4 { // two old ones, the new one, and that of the hook
		t.Errorf("there are %v", slices.Sorted(maps.Keys(kept)))
	}
	for _, r := range []release{first, second} {
		if got, want := kept[configName(t, r)], r.configuration(t); got != want {
			t.Errorf("%s has now %q, was %q", configName(t, r), got, want)
		}
	}
	// A change without a restart keeps the name, so it replaces the content instead of keeping the old one too.
	again := renderIn(t, c, values(t, "image: {tag: '2'}\nconfig: {log: {level: warn}}"))
	if configName(t, again) != configName(t, second) || !strings.Contains(again.configuration(t), "level: warn") {
		t.Errorf("%s is %s", configName(t, again), again.configuration(t))
	}
	names := map[string]int{}
	for _, config := range all[*corev1.ConfigMap](again) {
		if names[config.Name]++; names[config.Name] > 1 {
			t.Errorf("%s is there twice", config.Name)
		}
	}
}

// The release must not go on without the ConfigMaps of old pods if Helm may not read them.
func TestLookupThatFailsStopsTheUpgrade(t *testing.T) {
	loaded, err := loader.LoadDir(chartDir)
	testkit.Must(t, err)
	all, err := renderValues(loaded, chartutil.Values{})
	testkit.Must(t, err)
	if _, err := engine.RenderWithClientProvider(loaded, all, cluster{err: errors.New("forbidden")}); err == nil {
		t.Error("it goes on")
	}
}
