package rehearsal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/rehearsal"
)

// An api is a gateway with a limit of requests in a second, two lists of 25 items, and writes that are executed once.
type api struct {
	random *rand.Rand
	limit  int

	mu     sync.Mutex
	sent   []time.Time // that count for the limit
	writes map[string]string
}

// sleep waits by the clock of the bubble of testing/synctest.
func sleep(d time.Duration) { time.Sleep(d) }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	latency := time.Duration(1+a.random.IntN(30)) * time.Millisecond
	a.mu.Unlock()
	sleep(latency)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	if !a.admit(h) {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	for name := range r.URL.Query() {
		if name != "cursor" && name != "limit" {
			h.Set("Ignored-Parameters", name)
		}
	}
	switch {
	case r.Method == http.MethodPost:
		a.write(w, r)
	case r.URL.Path == "/v1/audit" || r.URL.Path == "/v1/incidents":
		list(w, r)
	case r.URL.Path == "/v1/me":
		_, _ = io.WriteString(w, `{"scopes":["audit:read"]}`)
	case r.URL.Path == "/v1/monitors":
		_, _ = io.WriteString(w, `[{"id":"1","type":"http"}]`)
	default:
		_, _ = io.WriteString(w, `[{"id":"1"}]`)
	}
}

// admit counts a request, and writes the headers of limits.
func (a *api) admit(h http.Header) bool {
	now := time.Now()
	for len(a.sent) > 0 && now.Sub(a.sent[0]) >= time.Second {
		a.sent = a.sent[1:]
	}
	admitted := len(a.sent) < a.limit
	if admitted {
		a.sent = append(a.sent, now)
	} else {
		h.Set("Retry-After", "1")
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"second";q=%d;w=1`, a.limit))
	h.Set("RateLimit", fmt.Sprintf(`"second";r=%d;t=1`, a.limit-len(a.sent)))
	return admitted
}

func (a *api) write(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusRequestTimeout)
		return
	}
	key, text := r.Header.Get("Idempotency-Key"), fmt.Sprint(body)
	switch a.writes[key] {
	case "":
		a.writes[key] = text
	case text:
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	_, _ = fmt.Fprintf(w, `{"id":%q}`, key)
}

func list(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(r.URL.Query().Get("cursor"))
	if err != nil && r.URL.Query().Has("cursor") {
		w.Header().Set("Cursor-Status", "ignored")
	}
	var items []string
	for i := from; i < min(from+10, 25); i++ {
		items = append(items, fmt.Sprintf(`{"id":"%d","actionType":"a.b","resourceType":"a"}`, i))
	}
	next := "null"
	if from+10 < 25 {
		next = fmt.Sprintf(`"%d"`, from+10)
	}
	_, _ = fmt.Fprintf(w, `{"items":[%s],"nextCursor":%s}`, strings.Join(items, ","), next)
}

// pipes is a listener of connections in memory, which synctest knows.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// run runs a program against a rehearsal over HTTP, and returns the score.
func run(t *testing.T, seed uint64, fault string, runs func(p *program)) (score rehearsal.Score) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newRehearsal(seed)
		listener := pipes{make(chan net.Conn), make(chan struct{})}
		gateway := &api{random: rand.New(rand.NewPCG(seed, 1)), limit: 3, writes: make(map[string]string)}
		if fault == "pauses" {
			gateway.limit = 1000 // a client that waits for its limit makes a pause
		}
		server := &http.Server{Handler: h.Wrap(gateway), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		ended := make(chan error)
		go func() { ended <- server.Serve(listener) }()
		transport := &http.Transport{MaxIdleConnsPerHost: 10, DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			listener.accepted <- there
			return here, nil
		}}
		runs(&program{name: "first", fault: fault, http: &http.Client{Transport: transport}, random: rand.New(rand.NewPCG(seed, 2))})
		synctest.Wait() // until the last answers are recorded
		score = h.Score()
		transport.CloseIdleConnections()
		testkit.Must(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return score
}

// seeds returns how many seeds are tested.
func seeds(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv("RAPID_CHECKS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		testkit.Must(t, err)
		return n
	}
	if testing.Short() {
		return 25
	}
	return 1000
}

// Steps in any order, one after the other or in parallel, of one kind or of all, by one program or by processes that share only the token: a
// correct client fails no item.
func TestCorrectClientsFailNothing(t *testing.T) {
	passed := make(map[string]int)
	for seed := range seeds(t) {
		kind := ""
		score := run(t, seed, "", func(p *program) {
			workers, steps, kinds := 1+p.number(2)*p.number(5), 1+p.number(30), numSteps
			programs := []*program{p}
			if p.number(2) == 0 {
				programs = append(programs, &program{name: "second", http: p.http, random: rand.New(rand.NewPCG(seed, 3))},
					&program{name: "third", http: p.http, random: rand.New(rand.NewPCG(seed, 4))})
			}
			only := p.number(numSteps)
			if p.number(3) == 0 {
				kinds = 1
			}
			kind = fmt.Sprintf("%d workers of %d programs, %d steps of %d kinds from %d", workers, len(programs), steps, kinds, only)
			var done sync.WaitGroup
			for worker := range max(1, workers) {
				p := programs[worker%len(programs)]
				start := time.Duration(worker*p.number(9000)) * time.Millisecond
				done.Go(func() {
					time.Sleep(start)
					for range steps {
						if err := p.step((only + p.number(kinds)) % numSteps); err != nil {
							kind += ": " + err.Error()
						}
						if p.number(2) == 0 {
							time.Sleep(time.Duration(p.number(3000)) * time.Millisecond)
						}
					}
				})
			}
			done.Wait()
		})
		for _, item := range score.Items {
			if item.Result == rehearsal.Failed {
				t.Errorf("seed %d, %s: %s %+v", seed, kind, item.Name, item.Findings)
			}
			if item.Result == rehearsal.Passed {
				passed[item.Name]++
			}
		}
	}
	if len(passed) != len(rehearsal.Evaluate(nil, nil).Items) {
		t.Errorf("only these items are judged: %v", passed)
	}
}

// A careless client fails the item of the rule that it breaks, and gets its advice.
func TestCarelessClientsFail(t *testing.T) {
	also := map[string]string{ // what breaks by it: a walk that ends early, a request that is given up, and sent early for another reason
		"repeats": "pages restarts waits pauses", "patience": "pages restarts", "new-fields": "pages", "new-values": "pages restarts", "same-key": "repeats",
	}
	for _, rule := range rehearsal.Evaluate(nil, nil).Items {
		t.Run(rule.Name, func(t *testing.T) {
			for seed := range 1 + seeds(t)/20 {
				runs := careless
				if rule.Name == "waits" && seed%2 == 1 {
					runs = carelessThrice
				}
				score := run(t, seed, rule.Name, runs)
				for _, item := range score.Items {
					wrong := item.Result == rehearsal.Failed
					if wrong != (item.Name == rule.Name) && !(wrong && strings.Contains(also[rule.Name], item.Name)) {
						t.Errorf("seed %d: %s is %s, %s %+v", seed, item.Name, item.Result, item.Missing, item.Findings)
					}
				}
				var text strings.Builder
				testkit.Must(t, score.Print(&text))
				if !strings.Contains(text.String(), "Advice: "+rule.Advice) || score.Verdict != rehearsal.Failed {
					t.Errorf("seed %d: the advice is missing:\n%s", seed, text.String())
				}
			}
		})
	}
}

// careless does all steps, and ends early if its fault makes it stop.
func careless(p *program) {
	for step := range strings.FieldsSeq("0 4 5 3 3 0 1 2 0 1 3 2 0 1 2 0 1 2 3 0 1 2 0 1 2 3 0 1 2 4 3 0 1 2") {
		n, _ := strconv.Atoi(step)
		if errors.Is(p.step(n), errStopped) {
			return
		}
	}
}

// carelessThrice does all steps three times at the same time.
func carelessThrice(p *program) {
	var done sync.WaitGroup
	for range 3 {
		done.Go(func() { careless(p) })
	}
	done.Wait()
}
