package wiring

import (
	"log/slog"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/config"
)

// listenWithoutServices returns a gateway with default settings whose services are unreachable.
func listenWithoutServices(t *testing.T) *Gateway {
	t.Helper()
	c := config.Default()
	c.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	upstream := config.Upstream{Address: "127.0.0.1:1"}
	c.Upstreams = config.Upstreams{Fleet: upstream, Monitoring: upstream, Incident: upstream, Audit: upstream, Identity: upstream}
	e, err := Listen(t.Context(), Options{Loaded: config.Loaded{Config: c}, Logger: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	return e
}

func TestListenerErrorEndsTheGateway(t *testing.T) {
	e := listenWithoutServices(t)
	if err := e.public.Close(); err != nil { // Accept fails from now on
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "serve on the public listener") {
		t.Errorf("got %v", err)
	}
}
