package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
)

// packages are the packages that a release contains. generate installs one into an empty project,
// without a package registry.
var packages = []client{
	{name: "python", needs: []string{python}, generate: installWheel},
	{name: "typescript", needs: []string{"npm", tsc, tsx}, generate: installNPM},
	{name: "go", generate: installModule},
}

// Each package calls each kind of operation, decodes errors, stays within the limits of a token
// with requests that are sent at once, and verifies webhooks.
func TestPackages(t *testing.T) {
	testkit.SkipIfShort(t)
	readSources(t)
	built := buildPackages(t)
	reference := start(t, devtest.HighLimits)
	want := expectedTour(t, reference)
	kinds := kindsOf(t)
	deniedForAnHour := reference.limitedReads(t, "{requests: 1, per: 1h}")
	for _, p := range packages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			program, dir := p.prepare(t, built)
			checkPackageErrors(t, runProgram(t, start(t, deniedForAnHour), dir, append(program, "errors")))
			checkSettings(t, dir, program)
			checkAnswers(t, p.name, dir, program)
			checkPace(t, start(t, ""), dir, program)
			checkWebhooks(t, dir, program)
			checkExample(t, p.name, dir, program)
			checkTour(t, dir, append(program, "tour"), want, kinds)
		})
	}
}

func TestPackagesHaveTheVersionOfTheRelease(t *testing.T) {
	testkit.SkipIfShort(t)
	testkit.Find(t, "npm")
	testkit.Find(t, python)
	readSources(t)
	for version, ofPython := range map[string]string{"1.2.0-rc.1": "1.2.0rc1", "1.2.0-5d353b14": "1.2.0+5d353b14"} {
		built := t.TempDir()
		run(t, repository, nil, "clients/pack.sh", version, "2026-01-31T12:00:00Z", built)
		for _, name := range []string{"opsgate_client-" + ofPython + "-py3-none-any.whl", "opsgate-client-" + version + ".tgz", "opsgate-client-go-" + version + ".tar.gz"} {
			if _, err := os.Stat(filepath.Join(built, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// buildPackages returns a folder with the packages of a release.
func buildPackages(t *testing.T) string {
	t.Helper()
	built := t.TempDir()
	run(t, repository, nil, "clients/pack.sh", "1.0.0", "2026-01-31T12:00:00Z", built)
	return built
}

// readSources reads what clients are built from: go test repeats a cached result unless a file that
// the test itself reads has changed.
func readSources(t *testing.T) {
	t.Helper()
	for _, files := range []string{"clients/*/*.*", "clients/*/*/*.*", "clients/pack.sh"} {
		paths, err := filepath.Glob(repository + "/" + files)
		testkit.Must(t, err)
		for _, path := range paths {
			_, _ = os.ReadFile(path) // fails for a folder
		}
	}
}

func checkPackageErrors(t *testing.T, output []byte) {
	t.Helper()
	want := []string{
		"401 unauthorized", "403 forbidden required=incidents:write", "403 forbidden requiredPlan=ai", "404 not_found",
		"413 payload_too_large", "422 validation_error message,title", "429 rate_limited retry-after=3600",
	}
	var errs []string
	decode(t, output, &errs)
	for i := range errs {
		var with bool
		if errs[i], with = strings.CutSuffix(errs[i], " with a request id"); !with {
			t.Errorf("%s has no request id", errs[i])
		}
	}
	if last := len(errs) - 1; last >= 0 { // the first request was sent some seconds, or on a busy machine some minutes, ago
		errs[last] = regexp.MustCompile(`3\d\d\d$`).ReplaceAllString(errs[last], "3600")
	}
	if !slices.Equal(errs, want) {
		t.Errorf("errors are decoded as\n%q, want\n%q", errs, want)
	}
}

// checkPace runs a program that sends 60 requests, several at a time, with the limits of the demo.
func checkPace(t *testing.T, s system, dir string, program []string) {
	t.Helper()
	if failed := runProgram(t, s, dir, append(program, "pace", "10", "6")); string(failed) != "[]\n" {
		t.Errorf("failed requests: %s", failed)
	}
	counts := map[string]string{}
	series := regexp.MustCompile(`(?m)^opsgate_http_requests_total\{.*route="v1Me",status="(\d+)"\} (\d+)$`)
	for _, match := range series.FindAllStringSubmatch(string(get(t, s.AdminURL+"/metrics", "")), -1) {
		counts[match[1]] = match[2]
	}
	if fmt.Sprint(counts) != "map[200:60]" {
		t.Errorf("requests by status: %v", counts)
	}
}

// checkExample runs the program of the README of a package, which the guide also has.
func checkExample(t *testing.T, name, dir string, program []string) {
	t.Helper()
	example := map[string]struct {
		readme, file string
		argv         []string
	}{
		"python":     {"/python/opsgate_client/README.md", "example.py", []string{program[0], "example.py"}},
		"typescript": {"/typescript/opsgate-client/README.md", "client.mts", []string{"npx", "tsx", "client.mts"}},
		"go":         {"/go/client/README.md", "example/main.go", []string{"go", "run", "-mod=mod", "./example"}},
	}[name]
	readme, err := os.ReadFile(sources + example.readme)
	testkit.Must(t, err)
	guide, err := os.ReadFile(repository + "/gateway/apidocs/guides/generated-clients.md")
	testkit.Must(t, err)
	block := regexp.MustCompile("(?s)```\\w+\n(.*?)```\n").FindSubmatch(readme)
	if !bytes.Contains(guide, block[0]) {
		t.Errorf("the guide does not have the example of %s", example.readme)
	}
	s := start(t, devtest.HighLimits)
	file := filepath.Join(dir, example.file)
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	testkit.Must(t, os.WriteFile(file, bytes.ReplaceAll(block[1], []byte("https://api.example.com"), []byte(s.BaseURL)), 0o600))
	if name == "typescript" { // the guide has the commands in a sentence
		check := regexp.MustCompile("`(npx tsc [^`]+client\\.mts)`").FindSubmatch(guide)
		run(t, dir, nil, "bash", "-euc", string(check[1]))
	}
	before := countPages(t, s, "/v1/incidents?limit=100")
	if lines := bytes.Count(runProgram(t, s, dir, example.argv), []byte("\n")); lines != before {
		t.Errorf("the example printed %d lines, want %d", lines, before)
	}
	if after := countPages(t, s, "/v1/incidents?limit=100"); after != before+1 {
		t.Errorf("after the example there are %d incidents, before it %d", after, before)
	}
}

// A hook is a request of a webhook, as the programs read it.
type hook struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// checkWebhooks gives a program requests of the backend's sender: one, one that was changed, one
// that is late, one without a header, and one during the rotation of its secret, whose headers have
// another case.
func checkWebhooks(t *testing.T, dir string, program []string) {
	t.Helper()
	secret, other, now := bytes.Repeat([]byte("s"), 32), bytes.Repeat([]byte("o"), 32), time.Now()
	sent, late, rotated := post(t, now, secret), post(t, now.Add(-10*time.Minute), secret), post(t, now, other, secret)
	cut := post(t, now, secret)
	delete(cut.Headers, "webhook-id")
	tampered := hook{sent.Headers, strings.Replace(sent.Body, "minor", "major", 1)}
	rotated.Headers["Webhook-Signature"] = rotated.Headers["webhook-signature"]
	delete(rotated.Headers, "webhook-signature")
	var files []string
	for i, h := range []hook{sent, tampered, late, cut, rotated} {
		data, err := json.Marshal(h)
		testkit.Must(t, err)
		files = append(files, filepath.Join(dir, fmt.Sprintf("webhook%d.json", i)))
		testkit.Must(t, os.WriteFile(files[i], data, 0o600))
	}
	output := run(t, dir, []string{"WEBHOOK_SECRET=" + webhook.FormatSecret(secret)}, slices.Concat(program, []string{"webhook"}, files)...)
	var got []string
	decode(t, output, &got)
	if want := []string{
		"incident.created Été", "no signature matches", "the timestamp is not of now", "the header webhook-id is missing", "incident.created Été",
	}; !slices.Equal(got, want) {
		t.Errorf("webhooks: got %q, want %q", got, want)
	}
}

// post returns the request in which the backend's sender posts a message, at a time and with
// signatures of secrets.
func post(t *testing.T, at time.Time, secrets ...[]byte) (h hook) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h = hook{map[string]string{}, string(body)}
		for name := range r.Header {
			h.Headers[strings.ToLower(name)] = r.Header.Get(name)
		}
	}))
	defer receiver.Close()
	sender := webhook.New(webhook.Options{AllowHTTP: true, Clock: func() time.Time { return at }})
	testkit.Must(t, sender.Send(t.Context(), delivery.Message{
		ID: "1", Event: delivery.IncidentCreated, Attempt: 1, Incident: delivery.Incident{Title: "Été", Impact: "minor"},
		Subscriber: delivery.Subscriber{Address: receiver.URL, Secrets: secrets},
	}))
	return h
}

// libraries is where the wheel's requirements are, in the environment that make test-packages
// makes.
func libraries(t *testing.T, environment string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(environment, "lib", "*", "site-packages"))
	testkit.Must(t, err)
	if len(found) != 1 {
		t.Fatalf("%s has %q", environment, found)
	}
	return found[0]
}

func installWheel(t *testing.T, dir string) []string {
	t.Helper()
	shared := libraries(t, filepath.Dir(filepath.Dir(python)))
	path := filepath.Dir(python) + string(os.PathListSeparator) + os.Getenv("PATH")
	follow(t, dir, []string{"PATH=" + path, "PIP_NO_INDEX=1", "PYTHONPATH=" + shared}, "### Python 3.11 or later", 0)
	testkit.Must(t, os.WriteFile(filepath.Join(libraries(t, filepath.Join(dir, "venv")), "shared.pth"), []byte(shared+"\n"), 0o600))
	copyFile(t, "testdata/tour.py", dir)
	return []string{filepath.Join(dir, "venv", "bin", "python"), "tour.py"}
}

func installNPM(t *testing.T, dir string) []string {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module", "private": true}`), 0o600))
	follow(t, dir, []string{"npm_config_offline=true"}, "### TypeScript and JavaScript, Node 20.3 or later", 0)
	for _, name := range []string{"@types", "undici-types", ".bin"} {
		testkit.Must(t, os.Symlink(filepath.Join(nodeModules, name), filepath.Join(dir, "node_modules", name)))
	}
	copyFile(t, sources+"/typescript/tsconfig.json", dir)
	copyFile(t, "testdata/tour.ts", dir)
	run(t, dir, nil, tsc, "--project", ".", "--skipLibCheck", "false", "--module", "nodenext", "--moduleResolution", "nodenext")
	return []string{tsx, "tour.ts"}
}

func installModule(t *testing.T, dir string) []string {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n\ngo 1.26\n"), 0o600))
	copyFile(t, "testdata/tour.go", dir)
	offline := []string{"GOPROXY=off", "GOFLAGS=-mod=mod"}
	follow(t, dir, offline, "### Go 1.24 or later", 0)
	run(t, dir, offline, "go", "vet", ".")
	program := filepath.Join(dir, "program")
	run(t, dir, offline, "go", "build", "-o="+program, ".")
	return []string{program}
}
