package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"opsgate/authn"
)

// unlimited is a limit that denies no request.
const unlimited = 1_000_000_000

// edgeConfig is the usual configuration of the edge, with a short shutdown. Its arguments are the
// addresses of the backend and of Redis, the store of limits, a limit, and the largest numbers of
// requests and of calls in flight.
const edgeConfig = `listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
http: {max_in_flight: %[5]d}
upstream_calls: {max_in_flight: %[6]d}
rate_limit:
  store: %[3]s
  redis: {addresses: ["%[2]s"]}
  limits: [{requests: %[4]d, per: 1s}, {requests: %[4]d, per: 1h}]
upstreams:
  fleet: {address: "%[1]s"}
  monitoring: {address: "%[1]s"}
  incident: {address: "%[1]s"}
  audit: {address: "%[1]s"}
  identity: {address: "%[1]s"}
shutdown: {drain_wait: 0s, grace: 1s}
`

// Bounds of the resident memory of the edge, in bytes.
const (
	residentBar  = 56 << 20
	residentGoal = 48 << 20
)

// bound is a bar and a goal of the CPU time of a request in the edge, divided by that of another.
// With -enforce, a ratio above the bar fails.
type bound struct{ bar, goal float64 }

// scenario is one request: to the public API, and to grpc-gateway, with the bounds beside the bare
// gateway and the built one.
type scenario struct {
	name                       string
	method, path, body         string
	barePath, bareBody         string
	memory, redis, builtBounds bound
}

func scenarios() []scenario {
	one, inTeam := "/v1/servers/"+id(0x100), "?team_id="+team()
	return []scenario{
		{
			name: "list of 20", method: "GET", path: "/v1/servers", barePath: "/v1/servers" + inTeam,
			memory: bound{0.47, 0.43}, redis: bound{0.60, 0.50}, builtBounds: bound{0.52, 0.40},
		},
		{
			name: "one", method: "GET", path: one, barePath: one + inTeam,
			memory: bound{0.82, 0.74}, redis: bound{1.15, 0.95}, builtBounds: bound{0.72, 0.55},
		},
		{
			name: "POST", method: "POST", path: "/v1/incidents", barePath: "/v1/incidents",
			body: `{"title":"Checkout answers slowly","status":"investigating","impact":"minor",` +
				`"message":"We are looking into slow answers of the checkout."}`,
			bareBody: fmt.Sprintf(`{"teamId":%q,"actor":{"tokenId":%q,"ipAddress":"127.0.0.1"},"title":"Checkout answers slowly",`+
				`"status":"INCIDENT_STATUS_INVESTIGATING","impact":"INCIDENT_IMPACT_MINOR",`+
				`"message":"We are looking into slow answers of the checkout."}`, team(), id(0x400)),
			memory: bound{0.80, 0.72}, redis: bound{1.15, 0.95}, builtBounds: bound{0.74, 0.58},
		},
	}
}

// request returns the bytes of the request to an edge. All edges get the same headers: reading the
// credential is part of the compared cost.
func (sc scenario) request(p *process, token string) []byte {
	path, body := sc.path, sc.body
	if p.name == partBare || p.name == partBuilt {
		path, body = sc.barePath, cmp.Or(sc.bareBody, sc.body)
	}
	r := sc.method + " " + path + " HTTP/1.1\r\nHost: " + p.address + "\r\nAuthorization: Bearer " + token +
		"\r\nAccept: application/json\r\n"
	if body != "" {
		r += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(r + "\r\n" + body)
}

// compare runs the whole comparison and prints it.
func compare(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "edgebench-")
	if err != nil {
		return err
	}
	token, err := (authn.TokenFormat{Prefix: "ops_"}).New(rand.Reader)
	if err != nil {
		return err
	}
	processes, stop := context.WithCancel(ctx)
	edges, started, err := startAll(processes, dir, o)
	defer func() {
		stop()
		for _, p := range started {
			_ = p.cmd.Wait()
		}
		_ = os.RemoveAll(dir)
	}()
	if err != nil {
		return err
	}
	var all [][]sample
	for _, sc := range scenarios() {
		samples, err := measureRounds(ctx, o, edges, sc, token)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		all = append(all, samples)
	}
	if missed := report(out, o, edges, all); missed && o.enforce {
		return errors.New("the edge misses a bar")
	}
	return nil
}

// startAll starts the backend and the edges, of which opsgate is the first. The caller stops all
// that were started.
func startAll(ctx context.Context, dir string, o options) (edges, started []*process, err error) {
	add := func(name, key string, argv ...string) (p *process) {
		if err == nil {
			if p, err = start(ctx, dir, name, key, argv...); err == nil {
				started = append(started, p)
				return p
			}
		}
		return &process{}
	}
	self, err := os.Executable()
	redis, store, parts := "127.0.0.1:6379", "memory", []string{partBare, partFloor}
	if o.redis {
		redis, store, parts = freeAddress(ctx), "redis", []string{partBare, partBuilt, partFloor}
		_, port, _ := net.SplitHostPort(redis)
		add("redis", "", "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no")
	}
	backend := add(partBackend, "address", self, "serve", partBackend, "-", "-").address
	program, config := filepath.Join(dir, "opsgate"), filepath.Join(dir, "opsgate.yaml")
	build := exec.CommandContext(ctx, "sh", "-c", `CGO_ENABLED=0 go build $(cat deploy/build-flags) -o "$0" ./cmd/opsgate`,
		program)
	build.Dir, build.Stderr = "../../..", os.Stderr // this runs in tools/external/edgebench
	inFlight := max(1024, 2*o.connections)
	text := fmt.Appendf(nil, edgeConfig, backend, redis, store, unlimited, inFlight, 2*inFlight)
	err = errors.Join(err, build.Run(), os.WriteFile(config, text, 0o600))
	if err != nil {
		return nil, started, err
	}
	edges = append(edges, add("opsgate", "listen", program, "serve", "--config", config))
	for _, part := range parts {
		edges = append(edges, add(part, "address", self, "serve", part, backend, redis))
	}
	return edges, started, err
}

// freeAddress returns an address on which nothing listens.
func freeAddress(ctx context.Context) string {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

// sample is a measurement of one edge: the medians over all rounds.
type sample struct {
	cpu      time.Duration // for each request
	rate     float64       // requests per second
	p50, p99 time.Duration
	resident int64   // bytes, at the end
	ratio    float64 // the CPU time of the edge, divided by that of this one
}

// measureRounds measures all edges in turn, in each round, and returns their medians. A ratio is
// the median of those of the rounds, because a short slowdown of the machine affects all
// measurements of one round, but not all rounds.
func measureRounds(ctx context.Context, o options, edges []*process, sc scenario, token string) ([]sample, error) {
	rounds := make([][]sample, len(edges))
	for range o.rounds {
		var edge time.Duration
		for i, p := range edges {
			s, err := measure(ctx, o, p, sc.request(p, token))
			if err != nil {
				return nil, err
			}
			if i == 0 {
				edge = s.cpu
			}
			s.ratio = float64(edge) / float64(s.cpu)
			rounds[i] = append(rounds[i], s)
		}
	}
	var result []sample
	for _, samples := range rounds {
		result = append(result, sample{
			cpu:      median(samples, func(s sample) time.Duration { return s.cpu }),
			rate:     median(samples, func(s sample) float64 { return s.rate }),
			p50:      median(samples, func(s sample) time.Duration { return s.p50 }),
			p99:      median(samples, func(s sample) time.Duration { return s.p99 }),
			resident: median(samples, func(s sample) int64 { return s.resident }),
			ratio:    median(samples, func(s sample) float64 { return s.ratio }),
		})
	}
	return result, nil
}

// measure loads one edge, after a short warm-up.
func measure(ctx context.Context, o options, p *process, request []byte) (s sample, err error) {
	if _, err := load(ctx, p.address, request, o.connections, o.duration/8); err != nil {
		return s, fmt.Errorf("warm up %s: %w", p.name, err)
	}
	before, _, err := p.usage()
	if err != nil {
		return s, err
	}
	latencies, err := load(ctx, p.address, request, o.connections, o.duration)
	if err != nil {
		return s, err
	}
	after, resident, err := p.usage()
	n := len(latencies)
	return sample{
		cpu: (after - before) / time.Duration(n), rate: float64(n) / o.duration.Seconds(),
		p50: latencies[n/2], p99: latencies[n*99/100], resident: resident,
	}, err
}

// median returns the median of one figure: for an even number of samples, the lower of the two in
// the middle.
func median[T cmp.Ordered](samples []sample, figure func(sample) T) T {
	var figures []T
	for _, s := range samples {
		figures = append(figures, figure(s))
	}
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
}

// report prints the comparison and reports whether a bar is missed. Latencies have no bar: the
// load, the backend and the edge share one machine.
func report(w io.Writer, o options, edges []*process, all [][]sample) (missed bool) {
	_, _ = fmt.Fprintf(w,
		"CPU time of a request, %d connections, medians of %d rounds of %v. ratio: of opsgate beside it\n\n",
		o.connections, o.rounds, o.duration)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "request\tedge\tµs\trequests/s\tp50\tp99\tMiB\tratio\tbar\tgoal")
	var resident int64
	for i, sc := range scenarios() {
		resident = max(resident, all[i][0].resident)
		for j, s := range all[i] {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%.1f\t%.0f\t%.2f ms\t%.2f ms\t%.1f\t%.2f", sc.name, edges[j].name, float64(s.cpu)/1e3,
				s.rate,
				s.p50.Seconds()*1e3, s.p99.Seconds()*1e3, float64(s.resident)/(1<<20), s.ratio)
			if b := sc.bounds(edges[j].name, o.redis); b.bar > 0 {
				missed = missed || s.ratio > b.bar
				_, _ = fmt.Fprintf(t, "\t%.2f\t%.2f\t%s", b.bar, b.goal, verdict(s.ratio, b.bar, b.goal))
			}
			_, _ = fmt.Fprintln(t)
		}
	}
	_ = t.Flush()
	_, _ = fmt.Fprintf(w, "\nresident memory of opsgate: %.1f MiB (bar %d, goal %d): %s\n", float64(resident)/(1<<20),
		residentBar>>20, residentGoal>>20, verdict(float64(resident), residentBar, residentGoal))
	return missed || resident > residentBar
}

// bounds returns the bounds of opsgate beside another edge; none for itself and the floor.
func (sc scenario) bounds(edge string, redis bool) bound {
	switch {
	case edge == partBuilt:
		return sc.builtBounds
	case edge == partBare && redis:
		return sc.redis
	case edge == partBare:
		return sc.memory
	}
	return bound{}
}

// verdict compares a figure with its bounds. Lower figures are better.
func verdict(figure, bar, goal float64) string {
	switch {
	case figure <= goal:
		return "meets the goal"
	case figure <= bar:
		return "within the bar"
	default:
		return "MISSES THE BAR"
	}
}
