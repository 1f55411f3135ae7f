package docs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
)

const (
	repository = "../../../.."
	python     = repository + "/tools/clients/python/.venv/bin/python"

	webhooksGuide = "webhooks" // whose programs wait for messages and do not call the API
)

// The guide shows a payload as the sender writes it.
func TestWebhooksGuideShowsAPayload(t *testing.T) {
	encoded, err := webhook.Payload(notification())
	testkit.Must(t, err)
	var shown, sent any
	decode(t, []byte(blocksOf(t, webhooksGuide)["payload.json"]), &shown)
	decode(t, encoded, &sent)
	if !reflect.DeepEqual(shown, sent) {
		t.Errorf("the payload of the example is\n%s", encoded)
	}
}

// TestReceiversOfWebhooksGuide runs the receivers of the guide. Each accepts deliveries of the real sender, also during a rotation,
// processes a repeat only once, and refuses what is tampered, old, or signed with another key.
func TestReceiversOfWebhooksGuide(t *testing.T) {
	programs := blocksOf(t, webhooksGuide)
	for _, name := range []string{"receiver.py", "receiver.mts", "receiver.go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkReceiver(t, startReceiver(t, name, programs[name]+"\n"))
		})
	}
}

// blocksOf returns the blocks of a guide by title.
func blocksOf(t *testing.T, guide string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, block := range blocks(t) {
		if block.guide == guide {
			texts[block.title] = block.text
		}
	}
	return texts
}

var (
	receiverSecret = bytes.Repeat([]byte("r"), 32)
	otherSecret    = bytes.Repeat([]byte("o"), 32)
)

// notification is the message of the guide's example.
func notification() delivery.Message {
	at := time.Date(2026, 11, 22, 9, 41, 7, 123_000_000, time.UTC)
	return delivery.Message{
		ID: "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a10", Event: delivery.IncidentCreated, CreatedAt: at, Attempt: 1,
		Subscriber: delivery.Subscriber{Secrets: [][]byte{receiverSecret}},
		Page:       delivery.Page{ID: "3f6c1d5e-8a52-4f0e-9d0c-7c5b1f2a9e34", Name: "Harbour status", Hostname: "status.harbour.example"},
		Incident: delivery.Incident{
			ID: "019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55", Title: "API errors – détails", Impact: "major", StartedAt: at,
			Components: []delivery.Component{{ID: "b7e1f6d2-3c4a-4f58-8b9d-0a1b2c3d4e5f", Name: "Public API"}},
		},
		Update: delivery.Update{
			ID: "019ab0de-4b30-7a11-b1c2-8d7e6f5a4b3c", Status: "investigating",
			Message: "About 5 % of requests fail.\nWe are looking into it.", CreatedAt: at,
		},
	}
}

// A receiver is a running program of the guide.
type receiver struct {
	address string
	stop    func() (lines []string) // returns what it printed after its start
}

func checkReceiver(t *testing.T, r receiver) {
	t.Helper()
	send := func(step string, m delivery.Message, want string) {
		t.Helper()
		got := ""
		if err := r.send(t, nil, m); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	m := notification()
	send("delivery", m, "")
	m.Attempt = 2
	send("repeat", m, "")
	next := m
	next.ID, next.Event, next.Update.Status = "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a11", delivery.UpdatePosted, "resolved"
	next.Subscriber.Secrets = [][]byte{otherSecret, receiverSecret}
	send("rotation", next, "")

	unseen := m
	unseen.ID = "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a12"
	unseen.Subscriber.Secrets = [][]byte{otherSecret}
	send("another key", unseen, "HTTP 401")
	unseen.Subscriber.Secrets = m.Subscriber.Secrets
	ago := func() time.Time { return time.Now().Add(-10 * time.Minute) }
	if err := r.send(t, ago, unseen); err == nil || err.Error() != "HTTP 401" {
		t.Errorf("old: got %v", err)
	}
	checkTampering(t, r, unseen)

	want := []string{
		"incident.created 019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55 investigating API errors – détails",
		"incident.update_posted 019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55 resolved API errors – détails",
		"incident.created 019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55 investigating API errors – détails", // of checkTampering
	}
	if got := r.stop(); !reflect.DeepEqual(got, want) {
		t.Errorf("it processed\n%s", strings.Join(got, "\n"))
	}
}

// send sends a message to the receiver with the real sender.
func (r receiver) send(t *testing.T, clock func() time.Time, m delivery.Message) error {
	t.Helper()
	m.Subscriber.Address = "http://" + r.address + "/"
	return webhook.New(webhook.Options{AllowHTTP: true, Clock: clock}).Send(t.Context(), m)
}

// checkTampering records a request of the sender, and sends it to the receiver with each part changed, and then as it was.
func checkTampering(t *testing.T, r receiver, m delivery.Message) {
	t.Helper()
	var header http.Header
	var body []byte
	recorder := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		header = request.Header
		body, _ = io.ReadAll(request.Body)
	}))
	defer recorder.Close()
	testkit.Must(t, receiver{address: recorder.Listener.Addr().String()}.send(t, nil, m))
	post := func(change func(header http.Header, body *[]byte)) int {
		t.Helper()
		h, b := header.Clone(), bytes.Clone(body)
		change(h, &b)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/", bytes.NewReader(b))
		testkit.Must(t, err)
		request.Header = h
		response, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
		return response.StatusCode
	}
	for name, change := range map[string]func(http.Header, *[]byte){
		"body":         func(_ http.Header, b *[]byte) { *b = bytes.Replace(*b, []byte("major"), []byte("minor"), 1) },
		"longer body":  func(_ http.Header, b *[]byte) { *b = append(*b, '\n') },
		"no UTF-8":     func(_ http.Header, b *[]byte) { *b = append(*b, 0xff) },
		"id":           func(h http.Header, _ *[]byte) { h.Set("webhook-id", "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a13") },
		"timestamp":    func(h http.Header, _ *[]byte) { h.Set("webhook-timestamp", nextSecond(h.Get("webhook-timestamp"))) },
		"signature":    func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "v1,"+strings.Repeat("A", 43)+"=") },
		"form":         func(h http.Header, _ *[]byte) { h.Set("webhook-signature", "x") },
		"no signature": func(h http.Header, _ *[]byte) { h.Del("webhook-signature") },
		"no id":        func(h http.Header, _ *[]byte) { h.Del("webhook-id") },
	} {
		if status := post(change); status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", name, status)
		}
	}
	if status := post(func(http.Header, *[]byte) {}); status != http.StatusNoContent {
		t.Errorf("unchanged: got %d", status)
	}
}

func nextSecond(seconds string) string {
	n, _ := strconv.ParseInt(seconds, 10, 64)
	return strconv.FormatInt(n+1, 10)
}

// startReceiver runs a receiver.
func startReceiver(t *testing.T, name, text string) receiver {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, name), text)
	argv := receiverCommand(t, dir, name)
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), "WEBHOOK_SECRET="+webhook.FormatSecret(receiverSecret), "PORT=0")
	output := new(testkit.Buffer)
	command.Stdout = output
	p := testkit.Start(t, command)
	p.MayFail() // a signal ends it
	listening := regexp.MustCompile(`^listening on port (\d+)\n`)
	testkit.Eventually(t, "it listens", func() bool { return listening.MatchString(output.String()) })
	port := listening.FindStringSubmatch(output.String())[1]
	return receiver{address: "127.0.0.1:" + port, stop: func() []string {
		p.End(t)
		return lines(output.String())[1:]
	}}
}

// receiverCommand checks the program in the directory with the tools of its language, and returns the command that runs it.
func receiverCommand(t *testing.T, dir, name string) []string {
	t.Helper()
	file := filepath.Join(dir, name)
	switch filepath.Ext(name) {
	case ".py":
		return []string{testkit.Find(t, python), file}
	case ".mts":
		testkit.SkipIfShort(t)
		testkit.Must(t, os.Symlink(testkit.Find(t, npm), filepath.Join(dir, "node_modules")))
		checkTypes(t, file, "--skipLibCheck")
		return []string{"node", "--import", testkit.Find(t, npm+"/tsx/dist/loader.mjs"), file} // tsx itself would be a second process
	}
	program := filepath.Join(dir, "receiver")
	run(t, repository, "go", "build", "-o", program, file) // in the module, which has the library
	return []string{program}
}
