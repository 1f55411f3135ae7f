package deploytest

import (
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"opsgate/backendclient/testkit"
)

// values parses a values file.
func values(t *testing.T, text string) chartutil.Values {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(text))
	testkit.Must(t, err)
	return v
}

// watchedJob returns the job of a release in Prometheus: the value of the ServiceMonitor's job label on the Service that it selects.
func watchedJob(t *testing.T, r release) string {
	t.Helper()
	monitor := only[*monitoringv1.ServiceMonitor](t, r)
	for _, s := range all[*corev1.Service](r) {
		if selects(t, &monitor.Spec.Selector, s.Labels) {
			return s.Labels[monitor.Spec.JobLabel]
		}
	}
	t.Fatal("nothing is watched")
	return ""
}

// rules returns the queries and the runbook links of the rules of a release.
func rules(t *testing.T, r release) (queries, links string) {
	t.Helper()
	var asked, linked strings.Builder
	for _, file := range all[*monitoringv1.PrometheusRule](r) {
		for _, group := range file.Spec.Groups {
			for _, rule := range group.Rules {
				asked.WriteString(rule.Expr.String() + "\n")
				if link, is := rule.Annotations["runbook_url"]; is {
					linked.WriteString(link + "\n")
				}
			}
		}
	}
	return asked.String(), linked.String()
}

// With another job name most alerts would never fire, and OpsgateAbsent always.
func TestAlertsSelectTheScrapedJob(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"as it comes":                 {"", "opsgate"},
		"a release with its own name": {"nameOverride: edge", "edge"},
		"its own full name":           {"fullnameOverride: edge", "opsgate"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values(t, "serviceMonitor: {enabled: true}\nprometheusRule: {enabled: true}\n"+test.values))
			if job := watchedJob(t, r); job != test.want {
				t.Errorf("the job is called %q, want %q", job, test.want)
			}
			mustSelectJob(t, r, test.want)
		})
	}
	t.Run("watched by other means", func(t *testing.T) {
		mustSelectJob(t, render(t, values(t, "prometheusRule: {enabled: true, job: edge/gateways}")), "edge/gateways")
	})
}

// mustSelectJob checks that all rules select one job.
func mustSelectJob(t *testing.T, r release, job string) {
	t.Helper()
	queries, _ := rules(t, r)
	selector := `job="` + job + `"`
	if n := strings.Count(queries, selector); n < 5 || n != strings.Count(queries, "job=") {
		t.Errorf("%d of %d selectors of a job are %s", n, strings.Count(queries, "job="), selector)
	}
}

func TestRunbookPrefix(t *testing.T) {
	const prefix = "https://git.example.com/opsgate/blob/main/"
	_, inside := rules(t, render(t, values(t, "prometheusRule: {enabled: true}")))
	_, outside := rules(t, render(t, values(t, "prometheusRule: {enabled: true, runbookPrefix: '"+prefix+"'}")))
	if strings.Count(inside, "docs/operate/runbooks/") < 20 || strings.Contains(inside, "://") {
		t.Errorf("got\n%s", inside)
	}
	if want := prefix + strings.ReplaceAll(strings.TrimSpace(inside), "\n", "\n"+prefix) + "\n"; outside != want {
		t.Errorf("got\n%s\nwant\n%s", outside, want)
	}
}

// Each rule but those that record the objectives refers to them.
func TestObjectivesAreValues(t *testing.T) {
	for changed, want := range map[string]string{
		"": "vector(0.999) vector(0.99) vector(0.5)",
		", objectives: {availability: 0.99, latency: 0.95, latencySeconds: 0.25}": "vector(0.99) vector(0.95) vector(0.25)",
		", objectives: {availability: 0.9995, latencySeconds: 1}":                 "vector(0.9995) vector(0.99) vector(1)",
	} {
		queries, _ := rules(t, render(t, values(t, "prometheusRule: {enabled: true"+changed+"}")))
		got := strings.Join(regexp.MustCompile(`vector\([\d.]+\)`).FindAllString(queries, -1), " ")
		if got != want {
			t.Errorf("%s: the objectives are %s, want %s", changed, got, want)
		}
		if strings.Contains(queries, `le="`) {
			t.Errorf("a rule selects a bucket itself:\n%s", queries)
		}
	}
}

// Prometheus has the token for metrics if there is one; otherwise it needs the admin token.
func TestPrometheusHasTheTokenForMetrics(t *testing.T) {
	const own = "metrics_token: ${file:/run/secrets/opsgate/admin-metrics/bearer}"
	for name, test := range map[string]struct{ values, secret, key string }{
		"none": {"", "opsgate-admin", "token"},
		"own":  {"admin: {metrics: {existingSecret: {name: opsgate-metrics, key: bearer}}}", "opsgate-metrics", "bearer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values(t, "serviceMonitor: {enabled: true}\n"+test.values))
			credentials := only[*monitoringv1.ServiceMonitor](t, r).Spec.Endpoints[0].Authorization.Credentials
			if credentials.Name != test.secret || credentials.Key != test.key {
				t.Errorf("Prometheus has %s of %s, want %s of %s", credentials.Key, credentials.Name, test.key, test.secret)
			}
			if has := strings.Contains(r.configuration(t), own); has != (test.values != "") {
				t.Errorf("the gateway has a token for metrics: %t", has)
			}
		})
	}
}

// Probes and Prometheus use HTTPS exactly if the admin listener does.
func TestProbesAndPrometheusUseTheSchemeOfTheAdminListener(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		tls    bool
	}{
		"plain": {"", false},
		"TLS":   {"admin: {tls: {existingSecret: {name: admin-certificate}}}", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values(t, "serviceMonitor: {enabled: true}\n"+test.values))
			scheme, watched := corev1.URISchemeHTTP, monitoringv1.Scheme("")
			if test.tls {
				scheme, watched = corev1.URISchemeHTTPS, "https"
			}
			if is := strings.Contains(r.configuration(t), "cert_file: /run/secrets/opsgate/admin-tls/tls.crt"); is != test.tls {
				t.Errorf("the gateway has a certificate: %t", is)
			}
			container := only[*appsv1.Deployment](t, r).Spec.Template.Spec.Containers[0]
			for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
				if got := probe.HTTPGet.Scheme; got != scheme && (test.tls || got != "") {
					t.Errorf("the scheme of %s is %q", probe.HTTPGet.Path, got)
				}
			}
			endpoint := only[*monitoringv1.ServiceMonitor](t, r).Spec.Endpoints[0]
			got := monitoringv1.Scheme("")
			if endpoint.Scheme != nil {
				got = *endpoint.Scheme
			}
			if got != watched || (endpoint.TLSConfig != nil) != test.tls {
				t.Errorf("Prometheus uses %q with %+v", got, endpoint.TLSConfig)
			}
			if test.tls && (endpoint.TLSConfig.CA.Secret.Name != "admin-certificate" || *endpoint.TLSConfig.ServerName != "prod-opsgate-admin.edge.svc") {
				t.Errorf("Prometheus has the TLS configuration %+v", endpoint.TLSConfig)
			}
		})
	}
}
