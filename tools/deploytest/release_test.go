package deploytest

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// secretsDir is where the chart mounts Secrets.
const secretsDir = "/run/secrets/opsgate"

// configuration returns the configuration of a release.
func (r release) configuration(t *testing.T) string {
	t.Helper()
	for _, c := range all[*corev1.ConfigMap](r) {
		if text, is := c.Data["opsgate.yaml"]; is {
			return text
		}
	}
	t.Fatal("there is no configuration")
	return ""
}

// mountPaths returns the mount paths by volume.
func mountPaths(d *appsv1.Deployment) map[string]string {
	paths := map[string]string{}
	for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
		paths[m.Name] = m.MountPath
	}
	return paths
}

func TestChartConfigurationIsValid(t *testing.T) {
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			secrets := map[string]string{}
			d := only[*appsv1.Deployment](t, r)
			for _, v := range d.Spec.Template.Spec.Volumes {
				if v.Secret == nil {
					continue
				}
				dir, under := strings.CutPrefix(mountPaths(d)[v.Name], secretsDir+"/")
				if !under {
					t.Fatalf("%s is mounted at %q", v.Name, mountPaths(d)[v.Name])
				}
				for _, item := range v.Secret.Items {
					secrets[dir+"/"+item.Path] = "0123456789abcdef"
				}
				if len(v.Secret.Items) == 0 {
					secrets[dir+"/ca.crt"] = "read at the first connection"
				}
			}
			check(t, r.configuration(t), secretsDir, secrets)
		})
	}
}

// A replaced pod would lose its cached tokens and connections.
func TestConfigurationChangeReplacesNoPod(t *testing.T) {
	before := render(t, chartutil.Values{})
	values, err := chartutil.ReadValues([]byte("config: {rate_limit: {limits: [{requests: 10, per: 1s}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	after := render(t, values)
	if before.configuration(t) == after.configuration(t) {
		t.Fatal("the configuration is the same")
	}
	if a, b := only[*appsv1.Deployment](t, before), only[*appsv1.Deployment](t, after); !reflect.DeepEqual(a, b) {
		t.Errorf("the deployments differ:\n%v\n%v", a, b)
	}
	for _, m := range only[*appsv1.Deployment](t, after).Spec.Template.Spec.Containers[0].VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted with subPath, which the kubelet never updates", m.MountPath)
		}
	}
}

func TestPodsHaveTimeToDrain(t *testing.T) {
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			var config struct {
				Shutdown struct {
					DrainWait time.Duration `yaml:"drain_wait"`
					Grace     time.Duration
				}
			}
			if err := yaml.Unmarshal([]byte(r.configuration(t)), &config); err != nil {
				t.Fatal(err)
			}
			pod := only[*appsv1.Deployment](t, r).Spec.Template.Spec
			want := config.Shutdown.DrainWait + config.Shutdown.Grace + 10*time.Second
			if got := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; got != want {
				t.Errorf("killed after %s, want %s", got, want)
			}
			probe := pod.Containers[0].ReadinessProbe
			noticed := time.Duration(probe.PeriodSeconds*probe.FailureThreshold) * time.Second
			if config.Shutdown.DrainWait > 0 && noticed >= config.Shutdown.DrainWait {
				t.Errorf("draining is noticed after %s, when it is over", noticed)
			}
		})
	}
}

func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			template := only[*appsv1.Deployment](t, render(t, values)).Spec.Template
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
			if mounted := template.Spec.AutomountServiceAccountToken; mounted == nil || *mounted {
				t.Error("a service account token is mounted")
			}
			if readOnly := template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Error("its root file system is writable")
			}
		})
	}
}

// selectors returns the selectors of pods by name.
func selectors(r release) map[string]*metav1.LabelSelector {
	found := map[string]*metav1.LabelSelector{}
	for _, object := range r.objects {
		switch o := object.(type) {
		case *appsv1.Deployment:
			found["deployment"] = o.Spec.Selector
			for _, c := range o.Spec.Template.Spec.TopologySpreadConstraints {
				found["spread over "+c.TopologyKey] = c.LabelSelector
			}
		case *corev1.Service:
			found["service "+o.Name] = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		case *policyv1.PodDisruptionBudget:
			found["disruption budget"] = o.Spec.Selector
		case *networkingv1.NetworkPolicy:
			found["network policy"] = &o.Spec.PodSelector
		}
	}
	return found
}

func TestSelectorsAndReferencesMatch(t *testing.T) {
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			d := only[*appsv1.Deployment](t, r)
			for name, s := range selectors(r) {
				mustSelect(t, name, s, d.Spec.Template.Labels)
			}
			names := map[string]bool{}
			for _, c := range all[*corev1.ConfigMap](r) {
				names[c.Name] = true
			}
			for _, v := range d.Spec.Template.Spec.Volumes {
				if v.ConfigMap != nil && !names[v.ConfigMap.Name] {
					t.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
				}
			}
			for _, h := range all[*autoscalingv2.HorizontalPodAutoscaler](r) {
				if h.Spec.ScaleTargetRef.Name != d.Name || d.Spec.Replicas != nil {
					t.Errorf("scales %s; the deployment has %v replicas", h.Spec.ScaleTargetRef.Name, d.Spec.Replicas)
				}
			}
			for _, m := range all[*monitoringv1.ServiceMonitor](r) {
				watched := 0
				for _, s := range all[*corev1.Service](r) {
					if selects(t, &m.Spec.Selector, s.Labels) && s.Spec.Ports[0].Name == m.Spec.Endpoints[0].Port {
						watched++
					}
				}
				if watched != 1 {
					t.Errorf("%d services are watched", watched)
				}
			}
		})
	}
}

func mustSelect(t *testing.T, name string, s *metav1.LabelSelector, pod map[string]string) {
	t.Helper()
	if !selects(t, s, pod) {
		t.Errorf("%s does not select the pods", name)
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, podLabels map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(labels.Set(podLabels))
}

func TestAdminListenerIsNotPublished(t *testing.T) {
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			for _, s := range all[*corev1.Service](r) {
				if s.Spec.Ports[0].TargetPort.String() == "admin" && s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.Ports) != 1 {
					t.Errorf("%s is a %s with %v", s.Name, s.Spec.Type, s.Spec.Ports)
				}
			}
		})
	}
}

func TestFullReleaseHasAllObjects(t *testing.T) {
	values, err := chartutil.ReadValuesFile("testdata/values/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := render(t, values)
	for kind, n := range map[string]int{
		"Deployment": len(all[*appsv1.Deployment](r)), "Service": len(all[*corev1.Service](r)),
		"HorizontalPodAutoscaler": len(all[*autoscalingv2.HorizontalPodAutoscaler](r)),
		"PodDisruptionBudget":     len(all[*policyv1.PodDisruptionBudget](r)),
		"NetworkPolicy":           len(all[*networkingv1.NetworkPolicy](r)),
		"ServiceAccount":          len(all[*corev1.ServiceAccount](r)),
		"ServiceMonitor":          len(all[*monitoringv1.ServiceMonitor](r)),
	} {
		if n == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	if got, want := len(all[*monitoringv1.PrometheusRule](r)), count(t, "prometheus/rules/*.yaml"); got != want {
		t.Errorf("there are %d of %d files of rules", got, want)
	}
	if got, want := len(all[*corev1.ConfigMap](r))-1, count(t, "grafana/dashboards/*.json"); got != want {
		t.Errorf("there are %d of %d dashboards", got, want)
	}
	for _, object := range all[runtime.Object](r) {
		if m, is := object.(metav1.Object); is && m.GetLabels()["app.kubernetes.io/version"] == "" {
			t.Errorf("%s has no version label", m.GetName())
		}
	}
	if !strings.Contains(r.notes, "create secret generic operators --from-literal=bearer.txt=") {
		t.Errorf("the notes do not name the required Secret:\n%s", r.notes)
	}
}

// count returns the number of files in deploy that match a pattern.
func count(t *testing.T, pattern string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(paths)
}
