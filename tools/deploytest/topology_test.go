package deploytest

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// override replaces what the compose file pulls: the third-party images by Debian's programs. Grafana is not in Debian.
const override = `services:
  balancer: {image: IMAGES/haproxy}
  redis: {image: IMAGES/redis}
  prometheus: {image: IMAGES/prometheus}
  grafana: {profiles: [absent]}
  gateway: {build: &build {context: ROOT, args: {GO_IMAGE: IMAGES/go}}}
  backend: {build: *build}
`

// The documented commands start the whole system of the compose file, which shares limits, follows a changed configuration and survives
// Redis.
func (s *system) test(t *testing.T) {
	s.t = t
	s.composeImages(t)
	defer func() {
		if t.Failed() {
			t.Log(s.sh(t, s.enter+"docker compose ps --all; docker compose logs --tail 40"))
		}
		s.run("down --volumes")
	}()
	s.run("./secrets.sh")
	s.run("up --build")
	s.run("exec gateway")
	testkit.Eventually(t, "the balancer has found the gateways", func() bool { return strings.HasPrefix(s.run("curl"), "{") })
	if got := strings.Fields(s.sh(t, s.enter+"docker compose ps --format '{{.Health}}' gateway")); strings.Join(got, " ") != "healthy healthy" {
		t.Errorf("the gateways are %q", got)
	}
	s.awaitBurst("limits are shared", 3, 3)
	s.awaitServed()
	s.awaitScraped()
	s.checkAudited()
	if got := s.sh(t, s.enter+"docker compose exec -T redis redis-cli ping 2>&1 || true"); !strings.HasPrefix(got, "NOAUTH") {
		t.Errorf("Redis without its password: %q", got)
	}

	s.run("$EDITOR")
	s.awaitBurst("a changed configuration applies on both", 5, 5)

	s.run("--scale gateway=4")
	if got := len(s.addresses("gateway")); got != 4 {
		t.Errorf("%d gateways run, not 4", got)
	}
	s.sh(t, s.enter+"docker compose up --detach --scale gateway=2 --no-recreate")
	testkit.Eventually(t, "two gateways are left", func() bool { return len(s.addresses("gateway")) == 2 })

	s.run("stop redis")
	s.awaitBurst("limits stay in force without Redis", 3, 6) // half of five, rounded up, on each gateway: docs/operate/store-failure.md
}

func (e *dockerEngine) composeImages(t *testing.T) {
	t.Helper()
	e.importImage(t, localImages+"/haproxy", func(r *rootfs) { r.programs("haproxy") },
		"USER 99:99", `ENTRYPOINT ["/bin/haproxy"]`, `CMD ["-f", "/usr/local/etc/haproxy/haproxy.cfg"]`)
	e.importImage(t, localImages+"/redis", func(r *rootfs) { r.programs("sh", "cat", "grep", "redis-server", "redis-cli") })
	e.importImage(t, localImages+"/prometheus", func(r *rootfs) {
		r.programs("prometheus")
		r.dir("prometheus", 0o755, 65534)
	}, "USER 65534:65534", `ENTRYPOINT ["/bin/prometheus"]`)
}

// A system is the one of the compose file, in a copy of its folder.
type system struct {
	*dockerEngine
	t     *testing.T
	enter string // changes to the folder
	token string
}

func (e *dockerEngine) composeSystem(t *testing.T) *system {
	t.Helper()
	source, err := filepath.Abs(root)
	testkit.Must(t, err)
	dir := t.TempDir()
	run(t, exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(root, "deploy"), dir))
	readable(t, filepath.Join(dir, "deploy"))
	compose := filepath.Join(dir, "deploy", "compose")
	_ = os.RemoveAll(filepath.Join(compose, "secrets")) // of a user who tries the compose file in this checkout
	write(t, filepath.Join(compose, "local.yaml"), strings.NewReplacer("IMAGES", localImages, "ROOT", source).Replace(override))
	return &system{
		dockerEngine: e, t: t,
		enter: "export COMPOSE_FILE=compose.yaml:local.yaml OPSGATE_VERSION=" + version + " OPSGATE_REVISION=" + revision +
			" OPSGATE_BUILD_DATE=" + buildDate + " EDITOR='sed -i s/3,/5,/'; cd " + compose + "; ",
		token: regexp.MustCompile(`ops_live_\w+`).FindString(read(t, filepath.Join(root, "README.md"))),
	}
}

// run runs the documented command that contains a text.
func (s *system) run(text string) string {
	s.t.Helper()
	return s.sh(s.t, s.enter+documentedCommand(s.t, "The whole system, with Compose", text))
}

type answer struct {
	status int
	body   string
}

func (e *dockerEngine) get(t *testing.T, url, token string) answer {
	t.Helper()
	return fetch(t, e.client(), http.MethodGet, url, http.Header{"Authorization": {"Bearer " + token}}, "")
}

// fetch returns the answer to a request. Without one, its status is 0 and its body the error.
func fetch(t *testing.T, client *http.Client, method, url string, headers http.Header, body string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	request.Header = headers
	response, err := client.Do(request)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{response.StatusCode, string(content)}
}

// burst sends twenty requests at once through the balancer and returns how many were served, and how long it took.
func (s *system) burst() (served int, took time.Duration) {
	s.t.Helper()
	start := time.Now()
	var ok atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch got := s.get(s.t, "http://127.0.0.1:8080/v1/servers", s.token); got.status {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusTooManyRequests:
			default:
				s.t.Errorf("unexpected answer: %+v", got)
			}
		})
	}
	all.Wait()
	return int(ok.Load()), time.Since(start)
}

// awaitBurst repeats bursts, in windows of their own, until one is served at least so often within a second; the limit is never exceeded.
func (s *system) awaitBurst(what string, least, limit int) {
	s.t.Helper()
	for end := time.Now().Add(testkit.MaxWait); time.Now().Before(end); {
		served, took := s.burst()
		if s.t.Failed() {
			s.t.FailNow()
		}
		if took < time.Second && served > limit {
			s.t.Fatalf("%s: %d requests were served within %v, the limit is %d", what, served, took, limit)
		}
		if took < time.Second && served >= least {
			s.t.Logf("%s: %d of 20 requests served within %v", what, served, took)
			return
		}
		<-time.After(1100 * time.Millisecond)
	}
	s.t.Fatalf("%s: no burst was served %d times", what, least)
}

// awaitServed waits until each gateway has answered some of the burst's requests.
func (s *system) awaitServed() {
	s.t.Helper()
	token := s.sh(s.t, s.enter+"cat secrets/metrics_token")
	served := regexp.MustCompile(`(?m)^opsgate_http_requests_total\{.*route="v1[^}]*\} [1-9]`)
	for _, address := range s.addresses("gateway") {
		testkit.Eventually(s.t, address+" has answered requests", func() bool { return served.MatchString(s.get(s.t, "http://"+address+":9090/metrics", token).body) })
	}
}

// awaitScraped waits until Prometheus has scraped both gateways with their token.
func (s *system) awaitScraped() {
	s.t.Helper()
	query := "http://" + s.addresses("prometheus")[0] + ":9090/api/v1/query?query=" + url.QueryEscape(`count(up{job="opsgate"}==1)`)
	testkit.Eventually(s.t, "Prometheus has scraped", func() bool { return strings.Contains(s.get(s.t, query, "").body, `"2"]`) })
}

// checkAudited checks that an audit entry has the address that the load balancer received the request from, not the one that the client
// claims.
func (s *system) checkAudited() {
	s.t.Helper()
	const claimed = "6.6.6.6"
	body := `{"title":"T","status":"investigating","impact":"none","message":"M"}`
	headers := http.Header{"Authorization": {"Bearer " + s.token}, "Content-Type": {"application/json"}, "X-Forwarded-For": {claimed}}
	testkit.Eventually(s.t, "an incident is opened", func() bool {
		return fetch(s.t, s.client(), http.MethodPost, "http://127.0.0.1:8080/v1/incidents", headers, body).status == http.StatusOK
	})
	var log answer
	testkit.Eventually(s.t, "the audit log is read", func() bool {
		log = s.get(s.t, "http://127.0.0.1:8080/v1/audit?action=incident.", s.token)
		return log.status == http.StatusOK
	})
	if strings.Contains(log.body, claimed) || !strings.Contains(log.body, `"ipAddress":"10.137.29.`) {
		s.t.Errorf("the audit log has a claimed address: %s", log.body)
	}
}

// addresses returns an address of each container of a service.
func (s *system) addresses(service string) []string {
	s.t.Helper()
	return strings.Fields(s.sh(s.t, s.enter+"docker inspect --format '{{(index .NetworkSettings.Networks \"opsgate_watch\").IPAddress}}' "+
		"$(docker compose ps --quiet "+service+")"))
}
