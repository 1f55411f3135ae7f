package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/authn"
	"opsgate/tools/edgebench/load"
)

// Bounds of a measured cost, divided by the assumed one. `opsgate size` may ask for somewhat too much, and hardly too little.
const (
	mostUnder = 0.55
	mostOver  = 1.25
)

const (
	costTokens  = 100_000 // for costs per token
	costWorkers = 32      // that use them
)

// costSettings make room for the tokens, and keep them in the cache.
const costSettings = "authn: {max_entries: 200000, fresh_for: 1h, stale_for: 2h}\n"

var errCosts = errors.New("the costs that opsgate size assumes are wrong")

// assumed are the costs that `opsgate size` uses.
type assumed struct {
	RequestNS   float64 `json:"request_ns"`
	RedisCallNS float64 `json:"redis_call_ns"`
	LookupNS    float64 `json:"lookup_ns"`
	DecisionNS  float64 `json:"decision_ns"`
	Gateway     float64 `json:"gateway_bytes"`

	tokenInGateway, tokenInRedis float64 // bytes, under the default limits
}

// checkCosts measures the costs that `opsgate size` assumes, and prints both. It returns an error if one is out of its bounds.
func checkCosts(ctx context.Context, w io.Writer) error {
	inMemory, err := listCost(ctx, storeMemory)
	if err != nil {
		return err
	}
	inRedis, err := listCost(ctx, storeRedis)
	if err != nil {
		return err
	}
	perToken, err := tokenCosts(ctx)
	if err != nil {
		return err
	}
	want := inRedis.assumed
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "cost\tassumed\tmeasured\tratio\t\t")
	wrong := false
	for _, c := range []struct {
		name              string
		assumed, measured float64
		unit              string
	}{
		{"list of 20, limits in memory", want.RequestNS / 1e3, micros(inMemory.cpu), "µs"},
		{"list of 20, limits in Redis", (want.RequestNS + want.RedisCallNS) / 1e3, micros(inRedis.cpu), "µs"},
		{"lookup of a token", want.LookupNS / 1e3, micros(perToken.lookup), "µs"},
		{"decision, in Redis", want.DecisionNS / 1e3, micros(inRedis.decision), "µs"},
		{"gateway without tokens", want.Gateway / (1 << 20), float64(inRedis.resident) / (1 << 20), "MiB"},
		{"token, in a gateway", want.tokenInGateway, perToken.inGateway, "bytes"},
		{"token, in Redis", want.tokenInRedis, perToken.inRedis, "bytes"},
	} {
		ratio, verdict := c.measured/c.assumed, ""
		if ratio < mostUnder || ratio > mostOver {
			wrong, verdict = true, "WRONG"
		}
		_, _ = fmt.Fprintf(t, "%s\t%.0f %s\t%.1f %s\t%.2f\t%s\t\n", c.name, c.assumed, c.unit, c.measured, c.unit, ratio, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if wrong {
		return errCosts
	}
	return nil
}

// perRequest are costs of a list of 20 servers under as much load as the edge can serve.
type perRequest struct {
	assumed

	cpu      time.Duration // of the edge
	decision time.Duration // of Redis; 0 with limits in memory
	resident int64         // bytes of the edge
}

func listCost(ctx context.Context, store string) (c perRequest, err error) {
	o := options{store: store, rounds: 5, duration: 1500 * time.Millisecond, connections: costWorkers}
	s, err := newTestbed(ctx, o)
	if err != nil {
		return c, err
	}
	defer s.close()
	request := s.request("GET", s.edge, "/v1/servers", "")
	rounds := make([]round, o.rounds)
	for i := range rounds {
		if rounds[i].edge, err = measure(ctx, o, s.edge, request); err != nil {
			return c, err
		}
	}
	median := medians(rounds, func(r round) sample { return r.edge })
	c.cpu, c.resident = median.cpu, median.resident
	if c.assumed, err = assumedBy(ctx, s.opsgate); err != nil || store == storeMemory {
		return c, err
	}
	// The processor time of a process is counted in hundredths of a second, so one longer run is measured.
	before, err := s.redis.cpu()
	if err != nil {
		return c, err
	}
	result, err := load.Run(ctx, load.Options{Address: s.edge.address, Request: request, Connections: o.connections, Duration: 4 * o.duration})
	if err != nil {
		return c, err
	}
	after, err := s.redis.cpu()
	c.decision = (after - before) / time.Duration(max(1, result.Requests()))
	return c, err
}

// assumedBy returns the costs that `opsgate size` assumes.
func assumedBy(ctx context.Context, opsgate string) (assumed, error) {
	tokens := "--tokens=" + strconv.Itoa(costTokens)
	out, err := exec.CommandContext(ctx, opsgate, "size", "--json", "--sticky", "--rps=1", "--replicas=1", tokens).Output()
	if err != nil {
		return assumed{}, fmt.Errorf("opsgate size: %w", err)
	}
	var plan struct {
		Gateway float64 `json:"gateway_bytes"`
		Redis   float64 `json:"redis_bytes"`
		Costs   assumed `json:"costs"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return assumed{}, fmt.Errorf("read what opsgate size prints: %w", err)
	}
	plan.Costs.tokenInGateway = (plan.Gateway - plan.Costs.Gateway) / costTokens
	plan.Costs.tokenInRedis = plan.Redis / costTokens
	return plan.Costs, nil
}

// perToken are costs of a token.
type perToken struct {
	lookup             time.Duration // of the edge
	inGateway, inRedis float64       // bytes
}

// tokenCosts measures many tokens, each of which makes two requests under the default limits: the first needs a lookup.
func tokenCosts(ctx context.Context) (c perToken, err error) {
	s, err := newTestbed(ctx, options{
		store: storeRedis, settings: costSettings, limits: "[{requests: 3, per: 1s}, {requests: 5000, per: 1h}]",
	})
	if err != nil {
		return c, err
	}
	defer s.close()
	tokens := make([]string, costTokens)
	for i := range tokens {
		if tokens[i], err = (authn.TokenFormat{Prefix: "ops_"}).New(rand.Reader); err != nil {
			return c, fmt.Errorf("make a token: %w", err)
		}
	}
	if err := s.useTokens(ctx, tokens[:costWorkers]); err != nil { // opens all connections
		return c, err
	}
	var at [3]usage
	for i := range at {
		if i > 0 {
			if err := s.useTokens(ctx, tokens[costWorkers:]); err != nil {
				return c, err
			}
		}
		if at[i], err = s.usage(ctx); err != nil {
			return c, err
		}
	}
	n := float64(costTokens - costWorkers)
	first, second := at[1].edge-at[0].edge, at[2].edge-at[1].edge
	c.lookup = time.Duration(float64(first-second) / n)
	c.inGateway = (at[2].heap - at[0].heap) / n
	c.inRedis = float64(at[2].redisBytes-at[0].redisBytes) / n
	return c, nil
}

// useTokens sends one request with each token.
func (s *testbed) useTokens(ctx context.Context, tokens []string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: costWorkers}}
	defer client.CloseIdleConnections()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(costWorkers)
	for _, token := range tokens {
		g.Go(func() error {
			_, err := fetch(ctx, client, "http://"+s.edge.address+"/v1/me", token)
			return err
		})
	}
	return g.Wait()
}

// usage is what the edge has used, and the memory of Redis.
type usage struct {
	edge       time.Duration
	heap       float64 // bytes in use
	redisBytes int64
}

func (s *testbed) usage(ctx context.Context) (u usage, err error) {
	if u.edge, err = s.edge.cpu(); err != nil {
		return u, err
	}
	if u.redisBytes, err = s.redis.resident(); err != nil {
		return u, err
	}
	if _, err = fetch(ctx, http.DefaultClient, "http://"+s.admin+"/debug/pprof/heap?gc=1", ""); err != nil {
		return u, err
	}
	metrics, err := fetch(ctx, http.DefaultClient, "http://"+s.admin+"/metrics", "")
	if err != nil {
		return u, err
	}
	_, value, _ := strings.Cut(string(metrics), "\ngo_memstats_heap_alloc_bytes ")
	value, _, _ = strings.Cut(value, "\n")
	u.heap, err = strconv.ParseFloat(value, 64)
	return u, err
}
