package deploytest

import (
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"opsgate/backendclient/testkit"
)

// secretsDir is where the chart mounts Secrets.
const secretsDir = "/run/secrets/opsgate"

// configuration returns the configuration of the gateways.
func (r release) configuration(t *testing.T) string {
	t.Helper()
	return r.configMap(t, &only[*appsv1.Deployment](t, r).Spec.Template.Spec).Data["opsgate.yaml"]
}

// configMap returns the ConfigMap that a pod mounts as its configuration.
func (r release) configMap(t *testing.T, pod *corev1.PodSpec) *corev1.ConfigMap {
	t.Helper()
	for _, v := range pod.Volumes {
		for _, c := range all[*corev1.ConfigMap](r) {
			if v.Name == "config" && v.ConfigMap.Name == c.Name {
				return c
			}
		}
	}
	t.Fatal("there is no configuration")
	return nil
}

// mountPaths returns the mount paths by volume.
func mountPaths(pod *corev1.PodSpec) map[string]string {
	paths := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		paths[m.Name] = m.MountPath
	}
	return paths
}

func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	testkit.Must(t, err)
	for name, values := range eachValues(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			for _, template := range []corev1.PodTemplateSpec{
				only[*appsv1.Deployment](t, r).Spec.Template, only[*batchv1.Job](t, r).Spec.Template,
			} {
				level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
				for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
					if !result.Allowed {
						t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
					}
				}
				if mounted := template.Spec.AutomountServiceAccountToken; mounted == nil || *mounted {
					t.Error("a service account token is mounted")
				}
				for _, c := range append(template.Spec.Containers, template.Spec.InitContainers...) {
					if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
						t.Errorf("the root file system of %s is writable", c.Name)
					}
				}
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
				if selects(t, s, only[*batchv1.Job](t, r).Spec.Template.Labels) {
					t.Errorf("%s selects the pod of the check", name)
				}
			}
			names := map[string]bool{}
			for _, c := range all[*corev1.ConfigMap](r) {
				names[c.Name] = true
			}
			for _, v := range d.Spec.Template.Spec.Volumes {
				if v.Name == "config" && !names[v.ConfigMap.Name] {
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
	testkit.Must(t, err)
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
	testkit.Must(t, err)
	r := render(t, values)
	for kind, n := range map[string]int{
		"Deployment": len(all[*appsv1.Deployment](r)), "Service": len(all[*corev1.Service](r)),
		"HorizontalPodAutoscaler": len(all[*autoscalingv2.HorizontalPodAutoscaler](r)),
		"PodDisruptionBudget":     len(all[*policyv1.PodDisruptionBudget](r)),
		"NetworkPolicy":           len(all[*networkingv1.NetworkPolicy](r)),
		"ServiceAccount":          len(all[*corev1.ServiceAccount](r)),
		"ServiceMonitor":          len(all[*monitoringv1.ServiceMonitor](r)),
		"Ingress":                 len(all[*networkingv1.Ingress](r)),
		"HTTPRoute":               len(all[*gatewayv1.HTTPRoute](r)),
		"Job":                     len(all[*batchv1.Job](r)),
	} {
		if n == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	if got, want := len(all[*monitoringv1.PrometheusRule](r)), count(t, "prometheus/rules/*.yaml"); got != want {
		t.Errorf("there are %d of %d files of rules", got, want)
	}
	if got, want := len(all[*corev1.ConfigMap](r))-2, count(t, "grafana/dashboards/*.json"); got != want {
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
	testkit.Must(t, err)
	return len(paths)
}
