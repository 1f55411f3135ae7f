package wiring_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// settings returns the configuration of a gateway whose services are all at the address.
func settings(address string) config.Config {
	c := config.Default()
	c.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	upstream := config.Upstream{Address: address}
	c.Upstreams = config.Upstreams{Fleet: upstream, Monitoring: upstream, Incident: upstream, Audit: upstream, Identity: upstream}
	return c
}

func listen(t *testing.T, loaded config.Loaded) (*wiring.Gateway, error) {
	t.Helper()
	return wiring.Listen(t.Context(), wiring.Options{
		Loaded: loaded, Load: func() (config.Loaded, error) { return loaded, nil },
		Logger: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar),
	})
}

// What was opened before the error is released: no goroutine is left.
func TestListenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = taken.Close() }()
	redis := certstest.NewAuthority(t, "redis").Write(t, t.TempDir(), "gateway")
	roots := certstest.NewAuthority(t, "root")
	files := certstest.Write(t, roots.Server(t, 1).Certificate, roots.Server(t, 2).Key)
	withRedis := func(c *config.Config, files config.ClientTLS) {
		files.Enabled = true
		c.RateLimit.Store, c.RateLimit.Redis.TLS = config.StoreRedis, files
	}
	for name, test := range map[string]struct {
		spoil func(*config.Config)
		want  string
	}{
		"the public address is in use": {func(c *config.Config) { c.Listen = taken.Addr().String() }, "bind the public listener"},
		"the admin address is in use":  {func(c *config.Config) { c.Admin.Listen = taken.Addr().String() }, "bind the admin listener"},
		"a missing address":            {func(c *config.Config) { c.Upstreams.Audit.Address = "" }, ""},
		"an invalid token prefix":      {func(c *config.Config) { c.TokenPrefix = "no blanks" }, ""},
		"no limits":                    {func(c *config.Config) { c.RateLimit.Limits = nil }, ""},
		"the key of another certificate": {func(c *config.Config) {
			c.Admin.TLS = config.AdminTLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
		}, "certificate"},
		"no roots of Redis in the file": {func(c *config.Config) {
			withRedis(c, config.ClientTLS{CAFile: config.File(redis.KeyFile)})
		}, "TLS to Redis: read the "},
		"no file of roots of Redis": {func(c *config.Config) {
			withRedis(c, config.ClientTLS{CAFile: config.File(redis.CAFile + "!")})
		}, "TLS to Redis: read the "},
		"no key for Redis": {func(c *config.Config) {
			withRedis(c, config.ClientTLS{CertFile: config.File(redis.CertFile), KeyFile: config.File(redis.CAFile)})
		}, "TLS to Redis: read the "},
	} {
		c := settings("127.0.0.1:1")
		test.spoil(&c)
		if _, err := listen(t, config.Loaded{Config: c}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestListenerErrorEndsTheGateway(t *testing.T) {
	e, err := listen(t, config.Loaded{Config: settings("127.0.0.1:1")})
	testkit.Must(t, err)
	testkit.Must(t, e.ClosePublicListener()) // Accept fails from now on
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "serve on the public listener") {
		t.Errorf("got %v", err)
	}
}

func TestHeaderSizeLimit(t *testing.T) {
	r := start(t, "http: {max_header_bytes: 4KiB}\n")
	padded := func(n int) string { // a request whose line and header are n bytes
		const request = "GET /elsewhere HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: \r\n\r\n"
		return strings.Replace(request, "X: ", "X: "+strings.Repeat("x", n-len(request)), 1)
	}
	for _, test := range []struct {
		name, send string
		want       int
	}{
		{"a header of the maximum size", padded(4 << 10), 404},
		{"a larger header", padded(4<<10 + 1), 431},
		{"a header of twice the size", padded(8 << 10), 431},
		{"a header of four times the size", padded(16 << 10), 431},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404},
	} {
		if got, _ := r.connect(t).ask(t, test.send); got.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got.StatusCode, test.want)
		}
	}
	refused := `opsgate_http_requests_total{cause="input:header",code="headers_too_large",route="unmatched",status="431"}`
	r.mustHaveMetric(t, refused, "2") // by the gateway itself
}
