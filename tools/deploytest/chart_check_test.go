package deploytest

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// checkPod is a pod that validates the configuration, with the container that does it.
type checkPod struct {
	spec      corev1.PodSpec
	container corev1.Container
}

// checks returns the pod of the hook and that of a gateway.
func checks(t *testing.T, r release) map[string]checkPod {
	t.Helper()
	job, gateway := only[*batchv1.Job](t, r).Spec.Template.Spec, only[*appsv1.Deployment](t, r).Spec.Template.Spec
	return map[string]checkPod{"the hook": {job, job.Containers[0]}, "a gateway": {gateway, gateway.InitContainers[0]}}
}

// The arguments, the mounts and the configuration of the checks work with the real program. The only warnings are about the platform's network.
func TestChartConfigurationIsValid(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		t.Helper()
		for _, out := range mustCheck(t, r) {
			mustNotWarn(t, out)
		}
		for name, pod := range checks(t, r) {
			if !slices.Contains(pod.container.Args, "--allow-expired") {
				t.Errorf("%s: an expired certificate would keep gateways from starting: %q", name, pod.container.Args)
			}
		}
	})
}

// What only the program can refuse, because it concerns several keys or the range of a time, fails the hook and a starting gateway.
func TestChecksFailForWhatTheSchemaAccepts(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"a relation of keys":  {"config: {http: {write_timeout: 1s}}", "http.write_timeout"},
		"a time out of range": {"config: {http: {request_timeout: 1h}}", "http.request_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values(t, test.values))
			for name, pod := range checks(t, r) {
				if out, err := runCheck(t, r, pod, true); err == nil || !strings.Contains(out, test.want) {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			}
		})
	}
}

// The pod of the hook starts without a missing Secret, so that the log names the missing file. Gateways wait for it.
func TestHookReportsMissingSecrets(t *testing.T) {
	r := render(t, eachValues(t)["full"])
	pods := checks(t, r)
	out, err := runCheck(t, r, pods["the hook"], false)
	for _, missing := range []string{"admin/bearer.txt", "admin-metrics/prometheus", "redis/password", "admin-tls/tls.crt"} {
		if err == nil || !strings.Contains(out, missing) {
			t.Errorf("%s is not reported: %v\n%s", missing, err, out)
		}
	}
	for name, pod := range pods {
		for _, v := range pod.spec.Volumes {
			if v.Secret == nil {
				continue
			}
			if optional := v.Secret.Optional != nil && *v.Secret.Optional; optional != (name == "the hook") {
				t.Errorf("%s: the Secret %s is optional: %t", name, v.Name, optional)
			}
		}
	}
}

func TestHookRunsOnceBeforeTheRelease(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		t.Helper()
		job, gateway := only[*batchv1.Job](t, r), only[*appsv1.Deployment](t, r).Spec.Template.Spec
		config := r.configMap(t, &job.Spec.Template.Spec)
		for _, annotations := range []map[string]string{job.Annotations, config.Annotations} {
			if annotations["helm.sh/hook"] != "pre-install,pre-upgrade" ||
				annotations["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
				t.Errorf("got %v", annotations)
			}
		}
		if config.Annotations["helm.sh/hook-weight"] != "-5" || job.Annotations["helm.sh/hook-weight"] != "0" {
			t.Error("the ConfigMap of the hook is not made before its Job")
		}
		if spec := job.Spec; *spec.BackoffLimit != 0 || *spec.ActiveDeadlineSeconds < 10 || spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("got %+v", spec)
		}
		if account := job.Spec.Template.Spec.ServiceAccountName; account == "prod-opsgate" || account == "edge-gateway" {
			t.Errorf("the service account %s does not exist before the release", account)
		}
		hook, running := job.Spec.Template.Spec.Containers[0], gateway.Containers[0]
		mounts := func(c corev1.Container) (list []string) {
			for _, m := range c.VolumeMounts {
				list = append(list, m.Name+" "+m.MountPath)
			}
			return list
		}
		if hook.Image != running.Image || !slices.Equal(mounts(hook), mounts(running)) || len(hook.Env) != len(running.Env) {
			t.Errorf("the hook differs from the gateway:\n%+v\n%+v", hook, running)
		}
		if got, want := config.Data["opsgate.yaml"], r.configuration(t); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("the hook validates\n%s\nnot\n%s", got, want)
		}
	})
}

func TestHookCanBeDisabled(t *testing.T) {
	r := render(t, values(t, "checks: {hook: {enabled: false}}"))
	if n := len(all[*batchv1.Job](r)); n > 0 || len(all[*corev1.ConfigMap](r)) != 1 {
		t.Errorf("there are %d Jobs", n)
	}
	if n := len(only[*appsv1.Deployment](t, r).Spec.Template.Spec.InitContainers); n != 1 {
		t.Errorf("there are %d init containers", n)
	}
	if len(all[*batchv1.Job](render(t, chartutil.Values{}))) != 1 {
		t.Error("it is disabled by default")
	}
}
