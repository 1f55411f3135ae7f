package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"opsgate/authn"
)

// Stores of the edge's limits.
const (
	storeMemory = "memory"
	storeRedis  = "redis"
)

// edgeConfig is the usual configuration of the edge, with a short shutdown. %[1]s is the address of the backend, %[2]s the store of limits,
// %[3]s the address of Redis, %[4]s the limits.
const edgeConfig = `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
rate_limit:
  store: %[2]s
  redis: {addresses: ["%[3]s"]}
  limits: %[4]s
upstreams:
  fleet: {address: "%[1]s"}
  monitoring: {address: "%[1]s"}
  incident: {address: "%[1]s"}
  audit: {address: "%[1]s"}
  identity: {address: "%[1]s"}
shutdown: {drain_wait: 0s, grace: 1s}
log: {level: info, format: json, access: true}
`

// unlimited are limits that deny no request.
const unlimited = "[{requests: 1000000000, per: 1s}, {requests: 1000000000, per: 1h}]"

// target is an edge under load.
type target struct {
	*process

	address string
}

// testbed holds the processes of a comparison: one backend, and the edges that call it.
type testbed struct {
	dir       string // of binaries, configuration and logs
	processes []*process

	backend     string // its address
	edge        target
	admin       string   // address of the edge's admin listener
	opsgate     string   // path of the edge's program
	redis       *process // nil with limits in memory
	bare, floor target   // set by startBaselines
	token       string   // accepted by the edge
	team        string   // of the token; set by startBaselines
}

// close stops all processes in reverse order of their start, and removes dir.
func (s *testbed) close() {
	for _, p := range slices.Backward(s.processes) {
		p.stop()
	}
	_ = os.RemoveAll(s.dir)
}

// newTestbed builds and starts a backend and the edge. The caller closes it.
func newTestbed(ctx context.Context, o options) (_ *testbed, err error) {
	s := &testbed{}
	if s.dir, err = os.MkdirTemp("", "edgebench-"); err != nil {
		return nil, fmt.Errorf("make a working directory: %w", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.token, err = (authn.TokenFormat{Prefix: "ops_"}).New(rand.Reader); err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	backend, err := s.startPart(ctx, "backend", "serve-backend")
	if err != nil {
		return nil, err
	}
	s.backend = backend.address
	return s, s.startEdge(ctx, o)
}

// startBaselines starts the bare gateway and the floor.
func (s *testbed) startBaselines(ctx context.Context) (err error) {
	if s.bare, err = s.startPart(ctx, "bare", "serve-bare", s.backend); err != nil {
		return err
	}
	var me struct{ TeamID string }
	if err := s.get(ctx, s.edge, "/v1/me", &me); err != nil {
		return err
	}
	s.team = me.TeamID
	s.floor, err = s.startPart(ctx, "floor", "serve-floor", s.backend, s.team)
	return err
}

// startPart starts this program as one part of the comparison.
func (s *testbed) startPart(ctx context.Context, name string, args ...string) (target, error) {
	self, err := os.Executable()
	if err != nil {
		return target{}, fmt.Errorf("find this program: %w", err)
	}
	p, err := s.start(ctx, name, append([]string{self}, args...)...)
	if err != nil {
		return target{}, err
	}
	line, err := p.logLine(ctx, "address")
	return target{process: p, address: fmt.Sprint(line["address"])}, err
}

func (s *testbed) startEdge(ctx context.Context, o options) error {
	redis := "127.0.0.1:6379"
	var err error
	if o.store == storeRedis {
		if redis, err = s.startRedis(ctx); err != nil {
			return err
		}
	}
	if s.opsgate, err = s.build(ctx); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "opsgate.yaml")
	text := append(fmt.Appendf(nil, edgeConfig, s.backend, o.store, redis, cmp.Or(o.limits, unlimited)), o.settings...)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return fmt.Errorf("write the edge's configuration: %w", err)
	}
	p, err := s.start(ctx, "opsgate", slices.Concat(o.launcher, []string{s.opsgate, "serve", "--config", config})...)
	if err != nil {
		return err
	}
	line, err := p.logLine(ctx, "listen")
	s.edge, s.admin = target{process: p, address: fmt.Sprint(line["listen"])}, fmt.Sprint(line["admin_listen"])
	return err
}

// startRedis starts a redis-server without persistence, and returns its address. The edge connects when it is ready.
func (s *testbed) startRedis(ctx context.Context) (string, error) {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port for Redis: %w", err)
	}
	address := lis.Addr().String()
	_ = lis.Close()
	_, port, _ := net.SplitHostPort(address)
	s.redis, err = s.start(ctx, "redis", "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no")
	return address, err
}

// build compiles opsgate as releases do, and returns the path of the binary.
func (s *testbed) build(ctx context.Context) (string, error) {
	binary := filepath.Join(s.dir, "opsgate")
	cmd := exec.CommandContext(ctx, "sh", "-c", `CGO_ENABLED=0 go build $(cat deploy/build-flags) -o "$0" ./cmd/opsgate`, binary)
	cmd.Dir = "../.." // this runs in tools/edgebench
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build opsgate: %w\n%s", err, out)
	}
	return binary, nil
}

// start starts a program that close stops.
func (s *testbed) start(ctx context.Context, name string, argv ...string) (*process, error) {
	p, err := start(ctx, s.dir, name, argv...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// get sends a GET request to an edge and decodes the response.
func (s *testbed) get(ctx context.Context, t target, path string, into any) error {
	body, err := fetch(ctx, http.DefaultClient, "http://"+t.address+path, s.token)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("get %s of %s: %w", path, t.name, err)
	}
	return nil
}

// fetch returns the body of the response to a GET request, whose status must be 200.
func fetch(ctx context.Context, client *http.Client, url, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	return body, nil
}
