package deploytest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"opsgate/backendclient/testkit"
)

// The kubelet kills a pod only after the time that the real program needs at most to end, as it reports it to systemd.
func TestPodsHaveTimeToEnd(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		t.Helper()
		var config struct {
			Shutdown struct {
				DrainWait time.Duration `yaml:"drain_wait"`
				Grace     time.Duration
			}
		}
		testkit.Must(t, yaml.Unmarshal([]byte(r.configuration(t)), &config))
		pod := only[*appsv1.Deployment](t, r).Spec.Template.Spec
		var sleep time.Duration
		if hook := pod.Containers[0].Lifecycle; hook != nil {
			sleep = time.Duration(hook.PreStop.Sleep.Seconds) * time.Second
		}
		want := sleep + config.Shutdown.DrainWait + config.Shutdown.Grace + timeToExit(t)
		killed := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
		if killed < want || killed > want+5*time.Second {
			t.Errorf("killed after %s, it needs %s", killed, want)
		}
	})
	full := only[*appsv1.Deployment](t, render(t, eachValues(t)["full"])).Spec.Template.Spec
	if *full.TerminationGracePeriodSeconds != 7+10+30+10 {
		t.Errorf("the preStop sleep is not included: %d", *full.TerminationGracePeriodSeconds)
	}
}

// timeToExit returns how long a gateway without drain_wait and grace needs at most to end.
func timeToExit(t *testing.T) time.Duration {
	t.Helper()
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	testkit.Must(t, err)
	defer func() { _ = socket.Close() }()
	config := filepath.Join(dir, "opsgate.yaml")
	write(t, config, strings.NewReplacer("drain_wait: 0s", "drain_wait: 0s, grace: 0s", "ADMIN", "0").Replace(standalone))
	serve := exec.Command(filepath.Join(programs, "opsgate"), "serve", "--config", config)
	serve.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket.LocalAddr().String())
	gateway := testkit.Start(t, serve)
	message := make([]byte, 4096)
	for {
		testkit.Must(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := socket.Read(message)
		testkit.Must(t, err)
		if strings.Contains(string(message[:n]), "READY=1") {
			gateway.Signal(t, syscall.SIGTERM)
		}
		if found := regexp.MustCompile(`EXTEND_TIMEOUT_USEC=(\d+)`).FindStringSubmatch(string(message[:n])); found != nil {
			testkit.Must(t, gateway.Wait())
			micros, err := strconv.Atoi(found[1])
			testkit.Must(t, err)
			return time.Duration(micros) * time.Microsecond
		}
	}
}

// A gateway that drains answers 503 at once and must be unready before its listener closes. One on a starved node answers late.
func TestProbesNoticeADrainAndNotAStarvedNode(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		t.Helper()
		pod := only[*appsv1.Deployment](t, r).Spec.Template.Spec
		container := pod.Containers[0]
		ready, live, start := container.ReadinessProbe, container.LivenessProbe, container.StartupProbe
		drain := regexp.MustCompile(`drain_wait: (\S+)`).FindStringSubmatch(r.configuration(t))
		if len(drain) == 0 {
			t.Fatal("there is no drain")
		}
		if noticed := time.Duration(ready.PeriodSeconds*ready.FailureThreshold) * time.Second; noticed >= duration(t, drain[1]) {
			t.Errorf("a drain is noticed after %s, the listener closes after %s", noticed, drain[1])
		}
		if unanswered := ready.TimeoutSeconds * ready.FailureThreshold; unanswered < 10 || ready.FailureThreshold < 2 {
			t.Errorf("unready after %d s without an answer", unanswered)
		}
		if live.TimeoutSeconds*live.FailureThreshold < 60 || start.PeriodSeconds*start.FailureThreshold < 60 {
			t.Errorf("restarted too early: %+v, %+v", live, start)
		}
		if start.HTTPGet.Path != "/livez" || live.HTTPGet.Path != "/livez" || ready.HTTPGet.Path != "/readyz" {
			t.Error("a probe has the wrong path")
		}
	})
}

func TestNotesWarnOfRisks(t *testing.T) {
	for name, test := range map[string]struct{ wrong, want, right string }{
		"one gateway": {"autoscaling: {minReplicas: 1}", "there may be only one gateway", "autoscaling: {minReplicas: 2}"},
		"one gateway without the HPA": {
			"autoscaling: {enabled: false}\nreplicaCount: 1", "there may be only one gateway", "autoscaling: {enabled: false}",
		},
		"all are evicted":        {"podDisruptionBudget: {maxUnavailable: 2}", "allows all 2 gateways", "podDisruptionBudget: {maxUnavailable: 1}"},
		"all are evicted, by %":  {"podDisruptionBudget: {maxUnavailable: 100%}", "allows all 2 gateways", "podDisruptionBudget: {maxUnavailable: 50%}"},
		"a drain ends too early": {"shutdown: {drainWaitSeconds: 3}", "notices a drain after 3 s", "shutdown: {drainWaitSeconds: 4}"},
		"the proxy's address": {
			"ingress: {enabled: true, hosts: [api.example]}", "trusted_proxies is empty",
			"ingress: {enabled: true, hosts: [api.example]}\nconfig: {trusted_proxies: [10.0.0.0/8]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if notes := render(t, values(t, test.wrong)).notes; !strings.Contains(notes, test.want) {
				t.Errorf("got\n%s", notes)
			}
			if notes := render(t, values(t, test.right)).notes; strings.Contains(notes, "WARNING") {
				t.Errorf("got\n%s", notes)
			}
		})
	}
}

// The HPA removes gateways slower than they drain.
func TestScaleDownLeavesTimeToDrain(t *testing.T) {
	for name, values := range eachValues(t) {
		r := render(t, values)
		for _, h := range all[*autoscalingv2.HorizontalPodAutoscaler](r) {
			down := h.Spec.Behavior.ScaleDown
			if *down.StabilizationWindowSeconds < 300 || len(down.Policies) != 2 {
				t.Errorf("%s: got %+v", name, down)
			}
			drain := *only[*appsv1.Deployment](t, r).Spec.Template.Spec.TerminationGracePeriodSeconds
			for _, p := range down.Policies {
				if int64(p.PeriodSeconds) < drain {
					t.Errorf("%s: %d %s in %d s, a drain takes %d s", name, p.Value, p.Type, p.PeriodSeconds, drain)
				}
			}
		}
	}
}

func TestOptionsOfPods(t *testing.T) {
	pod := only[*appsv1.Deployment](t, render(t, eachValues(t)["full"])).Spec.Template.Spec
	if pod.DNSPolicy != corev1.DNSClusterFirst || len(pod.DNSConfig.Options) != 1 || pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds != 7 {
		t.Errorf("got %+v", pod)
	}
	if path := mountPaths(&pod)["trust"]; path != "/etc/trust" {
		t.Errorf("the extra volume is mounted at %q", path)
	}
	if pod.Volumes[len(pod.Volumes)-1].ConfigMap.Name != "trust-bundle" {
		t.Errorf("the volumes are %+v", pod.Volumes)
	}
}

func TestRoutesLeadToThePublicService(t *testing.T) {
	r := render(t, eachValues(t)["full"])
	public := func(name string, port int32, portName string) bool {
		for _, s := range all[*corev1.Service](r) {
			p := s.Spec.Ports[0]
			if s.Name == name && p.TargetPort.String() == "http" && (p.Port == port || p.Name == portName) {
				return true
			}
		}
		return false
	}
	ingress := only[*networkingv1.Ingress](t, r).Spec
	if *ingress.IngressClassName != "nginx" || len(ingress.Rules) != 2 || ingress.TLS[0].SecretName != "api-tls" {
		t.Errorf("got %+v", ingress)
	}
	for _, rule := range ingress.Rules {
		backend := rule.HTTP.Paths[0].Backend.Service
		if !public(backend.Name, backend.Port.Number, backend.Port.Name) || rule.HTTP.Paths[0].Path != "/" || rule.Host == "" {
			t.Errorf("got %+v", rule)
		}
	}
	route := only[*gatewayv1.HTTPRoute](t, r).Spec
	if route.ParentRefs[0].Name != "public" || *route.ParentRefs[0].SectionName != "https" || route.Hostnames[0] != "api.example.com" {
		t.Errorf("got %+v", route)
	}
	backend := route.Rules[0].BackendRefs[0]
	if !public(string(backend.Name), *backend.Port, "") || *route.Rules[0].Matches[0].Path.Value != "/" {
		t.Errorf("got %+v", backend)
	}
}
