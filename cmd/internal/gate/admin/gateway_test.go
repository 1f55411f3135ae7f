package admin_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/buildinfo"
	"opsgate/internal/testkit"
)

const (
	tokenID = servicestest.TokenID
	teamID  = servicestest.TeamID
)

// services are the internal services of a gateway: fleet, which can be stopped, and one server for
// all others.
type services struct {
	*servicestest.Services

	fleet     string // address
	stopFleet func()
}

func startServices(t *testing.T) *services {
	t.Helper()
	s := &services{Services: servicestest.Start(t), fleet: testkit.FreeAddress(t)}
	s.Sends = true
	s.startFleet(t)
	return s
}

// startFleet starts fleet, for the first time or again.
func (s *services) startFleet(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", s.fleet)
	testkit.Must(t, err)
	s.stopFleet = s.Serve(t, listener)
}

// gateway is a running gateway with its services.
type gateway struct {
	*services

	api, admin string // URLs
	file       string // configuration
	listen     string // admin address
	stop       context.CancelFunc
	ended      chan error
}

// start runs a gateway whose breakers trip and probe quickly, with additional configuration.
func start(t *testing.T, more string) *gateway {
	t.Helper()
	g := &gateway{services: startServices(t)}
	text := fmt.Sprintf(`listen: 127.0.0.1:0
shutdown: {drain_wait: 0s}
rate_limit: {limits: [{requests: 1000, per: 1s}]}
upstream_calls: {breaker: {min_requests: 3, open_for: 2s}}
upstreams: {fleet: {address: %q}, monitoring: &others {address: %q}, incident: *others, audit: *others, identity: *others}
`, g.fleet, g.Address) + more
	g.file, g.listen = filepath.Join(t.TempDir(), "opsgate.yaml"), testkit.FreeAddress(t)
	testkit.Must(t, os.WriteFile(g.file, []byte(text), 0o600))
	g.run(t)
	return g
}

func (g *gateway) run(t *testing.T) {
	t.Helper()
	load := func() (config.Loaded, error) {
		return config.Load(config.Options{
			Path: g.file, Environment: []string{"ADMIN=" + adminToken},
			Flags: []config.Setting{{Key: "admin.listen", Value: g.listen, From: "--admin-listen"}},
		})
	}
	loaded, err := load()
	testkit.Must(t, err)
	e, err := wiring.Listen(t.Context(), wiring.Options{
		Loaded: loaded, Load: load, Logger: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar), Build: buildinfo.Info{Version: "1.2.3"},
	})
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	g.api, g.admin = "http://"+e.Address().String(), "http://"+e.AdminAddress().String()
	ended := make(chan error, 1)
	g.stop, g.ended = stop, ended
	go func() {
		ended <- e.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// get sends a request and returns the response.
func (g *gateway) get(t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	testkit.Must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(text)
}

// servers lists the servers of the team.
func (g *gateway) servers(t *testing.T) (code int) {
	t.Helper()
	code, _ = g.get(t, g.api+"/v1/servers", g.Token)
	return code
}
