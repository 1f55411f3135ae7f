package delivery

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/webhook"
)

// A message that fails for a day becomes a dead letter. After opsbackend delivery retry it arrives, with the same id.
func TestDeadLetterIsSentAgain(t *testing.T) {
	var attempts atomic.Int64
	var recovered atomic.Bool
	to := startReceivers(t, func(context.Context, string) bool {
		attempts.Add(1)
		return !recovered.Load()
	})
	p := newPage(t, to, 2) // the email waits, because there is no sender for it
	c := &clock{now: time.Now()}
	startDispatcher(t, p, c)
	createIncident(t, p, "mark-1-0")
	testkit.Eventually(t, "an attempt fails", func() bool { return attempts.Load() == 1 })

	listed := func() []string {
		return strings.Split(strings.TrimSpace(opsbackend(t, "delivery", "list", "--data-dir", p.data, "--state", "dead")), "\n")[1:]
	}
	c.move(25 * time.Hour)
	testkit.Eventually(t, "the message becomes a dead letter", func() bool { return len(listed()) == 1 })
	id := strings.Fields(listed()[0])[0]
	recovered.Store(true)
	opsbackend(t, "delivery", "retry", "--data-dir", p.data, id)
	testkit.Eventually(t, "the message arrives", func() bool { return to.count() == 1 })
	if got := to.all()[0]; got.id != id || got.mark != "mark-1-0" {
		t.Errorf("%s arrived with the id %s, want %s", got.mark, got.id, id)
	}
	if dead := listed(); len(dead) != 0 {
		t.Errorf("dead letters after the retry: %v", dead)
	}
}

// startDispatcher delivers webhooks by the clock until the end of the test.
func startDispatcher(t *testing.T, p *page, c *clock) {
	t.Helper()
	backend, err := service.Open(t.Context(), service.Options{DataDir: p.data})
	testkit.Must(t, err)
	dispatcher := delivery.New(backend.Store(), delivery.Options{
		Clock: c.Now,
		Senders: map[string]delivery.Sender{
			delivery.Webhook: webhook.New(webhook.Options{AllowHTTP: true, DialContext: new(net.Dialer).DialContext}),
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, <-ended)
		testkit.Must(t, backend.Close())
	})
}

// createIncident creates an incident by a process that does not deliver.
func createIncident(t *testing.T, p *page, mark string) {
	t.Helper()
	api := launch(t, "opsbackend", nil, "serve", "--listen=127.0.0.1:0", "--data-dir="+p.data, "--no-delivery")
	address, _ := api.MustRecord(t, "serving")["address"].(string)
	_, err := newIncidentService(t, address).CreateIncident(t.Context(), p.incident(mark))
	testkit.Must(t, err)
	api.End(t)
}

// opsbackend runs opsbackend to its end, and returns its output.
func opsbackend(t *testing.T, arguments ...string) string {
	t.Helper()
	var log bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(programs, "opsbackend"), arguments...)
	command.Stderr = &log
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v, %s", arguments, err, &log)
	}
	return string(out)
}

// A clock is moved by a test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}
