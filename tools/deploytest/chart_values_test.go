package deploytest

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"opsgate/backendclient/testkit"
)

// refusal is a wrong value, a part of the message that refuses it, and the right value in its place, which is accepted.
type refusal struct{ wrong, want, right string }

func mustRefuse(t *testing.T, cases map[string]refusal) {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	testkit.Must(t, err)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := files(loaded, values(t, test.wrong)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v", test.wrong, err)
			}
			if _, err := files(loaded, values(t, test.right)); err != nil {
				t.Errorf("%s: %v", test.right, err)
			}
		})
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	mustRefuse(t, map[string]refusal{
		"a typo":                  {"replicacount: 3", "replicacount", "replicaCount: 3"},
		"a typo further down":     {"autoscaling: {min: 3}", "min", "autoscaling: {minReplicas: 3}"},
		"no admin token":          {"admin: {existingSecret: {name: ''}}", "name", "admin: {existingSecret: {name: operators}}"},
		"a reserved Secret name":  {"secrets: [{name: admin, secretName: x}]", "name", "secrets: [{name: backend, secretName: x}]"},
		"another reserved name":   {"secrets: [{name: admin-metrics, secretName: x}]", "name", "secrets: [{name: metrics, secretName: x}]"},
		"a job with a quote":      {"prometheusRule: {job: 'a\"b'}", "job", "prometheusRule: {job: 'a/b'}"},
		"a prefix without scheme": {"prometheusRule: {runbookPrefix: docs}", "runbookPrefix", "prometheusRule: {runbookPrefix: https://git.example/}"},
		"an objective without failures": {
			"prometheusRule: {objectives: {availability: 1}}", "availability", "prometheusRule: {objectives: {availability: 0.9995}}",
		},
		"a latency between two buckets": {
			"prometheusRule: {objectives: {latencySeconds: 0.3}}", "latencySeconds", "prometheusRule: {objectives: {latencySeconds: 1}}",
		},
		"an invalid digest":     {"image: {digest: latest}", "digest", "image: {digest: 'sha256:" + strings.Repeat("0", 64) + "'}"},
		"no replicas":           {"replicaCount: 0", "replicaCount", "replicaCount: 1"},
		"a volume of the chart": {"extraVolumes: [{name: config, emptyDir: {}}]", "name", "extraVolumes: [{name: scratch, emptyDir: {}}]"},
		"a mount over the configuration": {
			"extraVolumeMounts: [{name: a, mountPath: /etc/opsgate/}]", "mountPath", "extraVolumeMounts: [{name: a, mountPath: /etc/opsgate-trust}]",
		},
		"a preStop of unknown time": {
			"lifecycle: {preStop: {httpGet: {path: /}}}", "httpGet", "lifecycle: {preStop: {sleep: {seconds: 5}}}",
		},
		"a probe that never fails": {"probes: {liveness: {failureThreshold: 0}}", "failureThreshold", "probes: {liveness: {failureThreshold: 1}}"},
		"a hook without time":      {"checks: {hook: {timeoutSeconds: 1}}", "timeoutSeconds", "checks: {hook: {timeoutSeconds: 10}}"},
		"a host with a scheme": {
			"ingress: {enabled: true, hosts: ['https://api.example']}", "hosts", "ingress: {enabled: true, hosts: [api.example]}",
		},
		"an unknown DNS policy": {"dnsPolicy: Cluster", "dnsPolicy", "dnsPolicy: Default"},
	})
}

// Single values are valid, and their combination is not.
func TestHarmfulCombinationsAreRefused(t *testing.T) {
	const noHPA = "autoscaling: {enabled: false}\n"
	mustRefuse(t, map[string]refusal{
		"more at least than at most": {
			"autoscaling: {minReplicas: 11}", "autoscaling.minReplicas: 11 is more than maxReplicas, which is 10", "autoscaling: {minReplicas: 10}",
		},
		"no requests for the HPA": {"resources: {requests: null}", "resources.requests.cpu: is required", noHPA + "resources: {requests: null}"},
		"no CPU for the HPA": {
			"resources: {requests: {cpu: null}}", "resources.requests.cpu: is required", "resources: {requests: {cpu: null}, limits: {cpu: 2}}",
		},
		"no resources for the HPA": {"resources: null", "resources.requests.cpu: is required", noHPA + "resources: null"},
		"no eviction": {
			"podDisruptionBudget: {maxUnavailable: 0}", "maxUnavailable: 0 allows no eviction", "podDisruptionBudget: {maxUnavailable: 1}",
		},
		"no eviction, as a share": {
			"podDisruptionBudget: {maxUnavailable: 0%}", "maxUnavailable: 0 allows no eviction", "podDisruptionBudget: {enabled: false, maxUnavailable: 0%}",
		},
		"an Ingress of every host": {"ingress: {enabled: true}", "ingress.hosts: is required", "ingress: {enabled: true, hosts: ['*.example']}"},
		"a route without a Gateway": {
			"httpRoute: {enabled: true}", "httpRoute.parentRefs: is required", "httpRoute: {enabled: true, parentRefs: [{name: public}]}",
		},
	})
}

// What the gateway refuses as a single key, Helm refuses before it asks the cluster.
func TestInvalidConfigurationIsRefusedByTheSchema(t *testing.T) {
	mustRefuse(t, map[string]refusal{
		"a typo":               {"config: {trusted_proxy: [10.0.0.0/8]}", "trusted_proxy", "config: {trusted_proxies: [10.0.0.0/8]}"},
		"a typo further down":  {"config: {http: {max_inflight: 10}}", "max_inflight", "config: {http: {max_in_flight: 10}}"},
		"a typo in a list":     {"config: {rate_limit: {limits: [{request: 10, per: 1s}]}}", "request", "config: {rate_limit: {limits: [{requests: 10, per: 1s}]}}"},
		"a number for a time":  {"config: {http: {request_timeout: 5}}", "request_timeout", "config: {http: {request_timeout: 5s}}"},
		"a wrong unit":         {"config: {http: {request_timeout: 5sec}}", "request_timeout", "config: {http: {request_timeout: 5000ms}}"},
		"a wrong unit of size": {"config: {http: {max_body_bytes: 1MB}}", "max_body_bytes", "config: {http: {max_body_bytes: 1MiB}}"},
		"too large":            {"config: {http: {max_in_flight: 1000001}}", "max_in_flight", "config: {http: {max_in_flight: 1000000}}"},
		"a size out of range":  {"config: {http: {max_header_bytes: 5}}", "max_header_bytes", "config: {http: {max_header_bytes: 4096}}"},
		"too small":            {"config: {authn: {max_entries: 1}}", "max_entries", "config: {authn: {max_entries: 100}}"},
		"a negative limit":     {"config: {rate_limit: {limits: [{requests: -1, per: 1s}]}}", "requests", "config: {rate_limit: {limits: [{requests: 1, per: 1s}]}}"},
		"a word":               {"config: {log: {level: loud}}", "level", "config: {log: {level: debug}}"},
		"text for a number":    {"config: {http: {max_in_flight: '10'}}", "max_in_flight", "config: {http: {max_in_flight: 10}}"},
		"a network":            {"config: {trusted_proxies: [10.0.0.1]}", "trusted_proxies", "config: {trusted_proxies: [10.0.0.1/32]}"},
		"a secret in plain text": {
			"config: {rate_limit: {redis: {password: hunter2}}}", "password", "config: {rate_limit: {redis: {password: '${file:/run/secrets/opsgate/x/y}'}}}",
		},
		"another address":         {"config: {listen: ':80'}", "listen", "service: {port: 80}"},
		"a public admin listener": {"config: {admin: {listen: ':80'}}", "listen", ""},
		"a token in the values":   {"config: {admin: {token: secret}}", "token", "admin: {existingSecret: {name: operators, key: token}}"},
		"a token for metrics": {
			"config: {admin: {metrics_token: secret}}", "metrics_token", "admin: {metrics: {existingSecret: {name: metrics}}}",
		},
		"TLS besides the Secret":  {"config: {admin: {tls: {cert_file: x}}}", "tls", "admin: {tls: {existingSecret: {name: certificate}}}"},
		"shutdown in the config":  {"config: {shutdown: {grace: 1h}}", "shutdown", "shutdown: {graceSeconds: 600}"},
		"no services":             {"config: {upstreams: null}", "upstreams", ""},
		"a service missing":       {"config: {upstreams: {audit: null}}", "audit", ""},
		"an unknown service":      {"config: {upstreams: {billing: {address: 'billing:1'}}}", "billing", ""},
		"a limit without a value": {"config: {http: {max_in_flight: null}}", "max_in_flight", ""},
	})
}

// What the schema of the chart accepts of single keys, the program accepts: numbers keep their notation.
func TestAcceptedConfigurationIsAcceptedByTheProgram(t *testing.T) {
	r := render(t, values(t, `
config:
  log: {level: debug}
  http: {max_connections: 1000000, max_body_bytes: 16777216, body_timeout: 10s}
  authn: {max_entries: 10000000}
  routes: {v1ListServers: {timeout: 2s}}
  upstreams: {fleet: {tls: {enabled: true, server_name: fleet.example}}}
  rate_limit:
    limits: [{requests: 1000, per: 1m}, {name: busy-hour, requests: 1000000, per: 1h, shadow: true}]
    classes: {trial.2: {limits: [{requests: 1, per: 1s}], tokens: [4f7c2b1a-0d3e-4a5b-9c6d-7e8f90a1b2c3]}}
    tokens: {4f7c2b1a-0d3e-4a5b-9c6d-7e8f90a1b2c4: {limits: [{requests: 1, per: 1m}], owner: ops, reason: Migration, expires: 2126-02-01T00:00:00Z}}
`))
	mustCheck(t, r)
	if config := r.configuration(t); !strings.Contains(config, "max_connections: 1000000\n") {
		t.Errorf("the notation of numbers changed:\n%s", config)
	}
}

// mustCheck runs the containers of the checks, of the Job and of the gateways, with the real program and their mounts. It returns their output.
func mustCheck(t *testing.T, r release) (outputs []string) {
	t.Helper()
	for name, pod := range checks(t, r) {
		out, err := runCheck(t, r, pod, true)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		outputs = append(outputs, out)
	}
	return outputs
}

// runCheck runs a container of a check with the files that its pod mounts, and returns its output. Without secrets, optional Secrets are
// empty folders.
func runCheck(t *testing.T, r release, pod checkPod, secrets bool) (string, error) {
	t.Helper()
	dir := t.TempDir()
	paths, certificate := mountPaths(&pod.spec), read(t, root+"/cmd/internal/gate/config/testdata/certificate.pem")
	for _, v := range pod.spec.Volumes {
		if v.Secret == nil || !secrets {
			continue
		}
		for _, item := range v.Secret.Items {
			content := "the content of " + item.Path + " of " + v.Name
			if strings.HasPrefix(item.Path, "tls.") {
				content = certificate
			}
			write(t, filepath.Join(dir, paths[v.Name], item.Path), content)
		}
		if len(v.Secret.Items) == 0 {
			write(t, filepath.Join(dir, paths[v.Name], "ca.crt"), certificate)
		}
	}
	config := filepath.Join(dir, paths["config"], "opsgate.yaml")
	text := strings.ReplaceAll(r.configMap(t, &pod.spec).Data["opsgate.yaml"], secretsDir, filepath.Join(dir, secretsDir))
	write(t, config, text)
	args := slices.Clone(pod.container.Args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "/") {
			args[i] = filepath.Join(dir, arg)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), args...).CombinedOutput()
	return string(out), err
}
