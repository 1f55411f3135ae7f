package wiring_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	listServers  = "/ops.fleet.v1.FleetService/ListServers"
	resolveToken = "/ops.identity.v1.IdentityService/ResolveToken"
)

// traced is a gateway with the reference backend, a real Redis and a trace collector.
type traced struct {
	*running
	tracedOptions

	collector *tracingtest.Collector
	relay     *tracingtest.Relay // in front of the backend
	redis     *redistest.Server
}

// tracedOptions are deviations from the default setup.
type tracedOptions struct {
	tracing string // more keys of tracing
	more    string // more configuration
	limit   int    // requests per minute; 0 for 1000
}

func startTraced(t *testing.T, o tracedOptions) *traced {
	t.Helper()
	backend := startReference(t)
	c := &traced{
		tracedOptions: o,
		collector:     tracingtest.Start(t), relay: tracingtest.StartRelay(t, backend.address), redis: redistest.Start(t),
	}
	c.running = startWith(t, &servicestest.Services{Address: c.relay.Address, Token: backend.token}, c.configuration())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.log.String())
		}
	})
	c.readiness(t, "ready")
	testkit.Eventually(t, "the revocation stream is connected, without which cached tokens are looked up again", func() bool {
		return c.metric(t, "opsgate_authn_revocation_stream_connected") == "1"
	})
	testkit.Eventually(t, "Redis was probed, after which it has the script", func() bool {
		return c.metric(t, `opsgate_rate_limit_redis_call_duration_seconds_count{operation="ping",outcome="ok"}`) == "1"
	})
	testkit.Must(t, c.redis.Client().ScriptFlush(t.Context()).Err())
	return c
}

func (c *traced) configuration() string {
	return fmt.Sprintf("tracing: {endpoint: %q, %s}\n%s", c.collector.HTTP, c.tracing, c.more) + inRedis(c.redis.Addr(), cmp.Or(c.limit, 1000), "")
}

// reference is a reference backend with the demo data, and a valid token.
type reference struct{ address, token string }

func startReference(t *testing.T) *reference {
	t.Helper()
	backend, err := service.Open(t.Context(), service.Options{DataDir: t.TempDir()})
	testkit.Must(t, err)
	format := authn.TokenFormat{Prefix: "ops_"}
	testkit.Must(t, demo.Seed(t.Context(), backend.Store(), format, time.Now()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- backend.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-done)
		testkit.Must(t, backend.Close())
	})
	tokens, err := demo.Tokens(format)
	testkit.Must(t, err)
	i := slices.IndexFunc(tokens, func(t demo.Token) bool { return t.Name == "full" })
	return &reference{listener.Addr().String(), tokens[i].Text}
}

// traces stops the gateway, which flushes its spans, and returns the spans of each trace in the
// order of their start.
func (c *traced) traces(t *testing.T) [][]tracingtest.Span {
	t.Helper()
	c.finish(t)
	byTrace := make(map[string][]tracingtest.Span)
	for _, s := range c.collector.Spans() {
		byTrace[string(s.GetTraceId())] = append(byTrace[string(s.GetTraceId())], s)
	}
	all := slices.Collect(maps.Values(byTrace))
	for _, spans := range all {
		slices.SortFunc(spans, func(a, b tracingtest.Span) int {
			return cmp.Or(cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()),
				cmp.Compare(b.GetEndTimeUnixNano(), a.GetEndTimeUnixNano())) // a parent before its child
		})
	}
	slices.SortFunc(all, func(a, b []tracingtest.Span) int {
		return cmp.Compare(a[0].GetStartTimeUnixNano(), b[0].GetStartTimeUnixNano())
	})
	return all
}

// tree returns the names of the spans of a trace, indented below their parents, without the HELLO
// of a new Redis connection.
func tree(spans []tracingtest.Span) string {
	var b strings.Builder
	var write func(parent []byte, indent string)
	write = func(parent []byte, indent string) {
		for _, s := range spans {
			if bytes.Equal(s.GetParentSpanId(), parent) && s.GetName() != "HELLO" {
				fmt.Fprintf(&b, "%s%s %s", indent, strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")), s.GetName())
				if failure := s.Attributes()["error.type"]; failure != "" {
					fmt.Fprintf(&b, " (%s)", failure)
				}
				b.WriteByte('\n')
				write(s.GetSpanId(), indent+"  ")
			}
		}
	}
	write(nil, "")
	return b.String()
}

func sameTree(t *testing.T, got []tracingtest.Span, want string) {
	t.Helper()
	if diff := gocmp.Diff(strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", ""), tree(got)); diff != "" {
		t.Error(diff)
	}
}
