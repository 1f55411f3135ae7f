package sizing_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/cmd/internal/gate/sizing"
)

// costs are round, so that expected values can be computed by hand.
func costs() sizing.Costs {
	return sizing.Costs{
		Request: 100 * time.Microsecond, RedisCall: 20 * time.Microsecond, Lookup: 50 * time.Microsecond, Handshake: time.Millisecond,
		Decision: 20 * time.Microsecond, Gateway: 60e6, Connection: 40e3, WorstConnection: 100e3, Principal: 400, KeptAccount: 200, StoredAccount: 250,
	}
}

func demand() sizing.Demand {
	return sizing.Demand{
		RPS: 10_000, Tokens: 1_000_000, Open: 4000, Sticky: true, Gateways: 4, Processors: 2, Memory: 1e9, RedisMasters: 2,
		ServiceTime: 20 * time.Millisecond, LookupTime: 10 * time.Millisecond,
		Settings: sizing.Settings{
			Window: time.Hour, AccountBytes: 100, FreshFor: 30 * time.Second, MaxEntries: 500_000, MaxLookups: 64, MaxInFlight: 1000, MaxOpen: 5000,
			MaxCalls: 500, RedisPool: 32,
		},
	}
}

func TestEstimateOfOneExample(t *testing.T) {
	p := sizing.Estimate(demand(), costs())
	// A token comes every 100 s, and its entry is fresh for 20 s of a refreshed 30 s: 1,000,000 ÷ 120 s.
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"lookups", p.Lookups, 1e6 / 120.},
		{"tokens of a gateway", float64(p.TokensOfGateway), 250_000},
		{"processors", p.Processors, 10_000*120e-6 + 1e6/120.*50e-6},
		{"memory of a gateway", float64(p.GatewayMemory), 60e6 + 1000*40e3 + 250_000*(400+200+100)},
		{"operations of Redis", p.RedisOperations, 10_002},
		{"memory of Redis", float64(p.RedisMemory), 1e6 * 350},
		{"processor of a Redis", use(t, p, sizing.RedisProcessor).Used(), 10_002. / 2 * 20e-6},
		{"requests in flight", use(t, p, sizing.RequestsInFlight).Needed, 50},
		{"lookups in flight", use(t, p, sizing.LookupsInFlight).Needed, 1e6 / 120. / 4 * .01},
		{"open connections", use(t, p, sizing.OpenConnections).Used(), .2},
		{"cached tokens", use(t, p, sizing.CachedTokens).Used(), .5},
	} {
		if math.Abs(c.got-c.want) > 1e-6*c.want {
			t.Errorf("%s: %v, not %v", c.name, c.got, c.want)
		}
	}
	if b := p.Bottleneck(); b.Resource != sizing.CachedTokens {
		t.Errorf("the bottleneck is %+v", b)
	}
}

func TestBottleneckFollowsTheScarcestResource(t *testing.T) {
	for name, scarce := range map[string]func(*sizing.Demand){
		sizing.GatewayProcessors: func(d *sizing.Demand) { d.Processors = .3 },
		sizing.GatewayMemory:     func(d *sizing.Demand) { d.Memory = 100e6 },
		sizing.CachedTokens:      func(d *sizing.Demand) { d.MaxEntries = 100_000 },
		sizing.LookupsInFlight:   func(d *sizing.Demand) { d.MaxLookups = 1 },
		sizing.OpenConnections:   func(d *sizing.Demand) { d.MaxOpen = 10 },
		sizing.RequestsInFlight:  func(d *sizing.Demand) { d.MaxInFlight = 10 },
		sizing.CallsInFlight:     func(d *sizing.Demand) { d.MaxCalls = 10 },
		sizing.RedisProcessor:    func(d *sizing.Demand) { d.RPS, d.Gateways, d.Tokens = 200_000, 100, 1000 },
		sizing.RedisConnections:  func(d *sizing.Demand) { d.RedisPool = 1 },
	} {
		d := demand()
		scarce(&d)
		if b := sizing.Estimate(d, costs()).Bottleneck(); b.Resource != name {
			t.Errorf("%s: the bottleneck is %+v", name, b)
		}
	}
}

func TestLimitsInMemoryNeedNoRedis(t *testing.T) {
	d := demand()
	shared := sizing.Estimate(d, costs())
	d.RedisMasters = 0
	p := sizing.Estimate(d, costs())
	if p.RedisOperations != 0 || p.RedisMemory != 0 || len(p.Uses) != len(shared.Uses)-2 || p.Processors >= shared.Processors {
		t.Errorf("%+v", p)
	}
}

func TestTheFewestGatewaysAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDemand(t)
		d.Gateways = 0
		p := sizing.Estimate(d, costs())
		if p.Uses[0].Strain() > 1 {
			t.Fatalf("%d gateways are not enough", p.Gateways)
		}
		if d.Gateways = p.Gateways - 1; d.Gateways > 0 && sizing.Estimate(d, costs()).Uses[0].Strain() <= 1 {
			t.Fatalf("%d gateways would be enough, not %d", d.Gateways, p.Gateways)
		}
	})
}

func TestEstimatesGrowWithTheDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDemand(t)
		p := sizing.Estimate(d, costs())
		if p.Lookups > d.RPS*(1+1e-9) {
			t.Fatalf("%v lookups of %v requests", p.Lookups, d.RPS)
		}
		if float64(p.TokensOfGateway) > float64(d.Tokens)+1 {
			t.Fatalf("a gateway serves %d of %d tokens", p.TokensOfGateway, d.Tokens)
		}
		more := d
		more.RPS *= 2
		if q := sizing.Estimate(more, costs()); q.Processors <= p.Processors || q.RedisOperations <= p.RedisOperations || q.Lookups < p.Lookups {
			t.Fatalf("%+v needs more than %+v", p, q)
		}
		sticky := d
		sticky.Sticky = true
		if q := sizing.Estimate(sticky, costs()); q.Lookups > p.Lookups*(1+1e-9) {
			t.Fatalf("a sticky balancer needs %v lookups, not %v", q.Lookups, p.Lookups)
		}
	})
}

func anyDemand(t *rapid.T) sizing.Demand {
	d := demand()
	d.RPS = rapid.Float64Range(1, 1e5).Draw(t, "rps")
	d.Tokens = rapid.IntRange(1, int(min(10e6, 100*d.RPS))).Draw(t, "tokens") // each is used many times within the window
	d.Gateways = rapid.IntRange(1, 100).Draw(t, "gateways")
	d.Sticky = rapid.Bool().Draw(t, "sticky")
	d.MaxEntries = rapid.IntRange(100, 10_000_000).Draw(t, "max_entries")
	return d
}

func use(t *testing.T, p sizing.Plan, resource string) sizing.Use {
	t.Helper()
	for _, u := range p.Uses {
		if u.Resource == resource {
			return u
		}
	}
	t.Fatalf("there is no %s", resource)
	return sizing.Use{}
}

func TestConnectionsTakeHalfOfWhatRemainsBesideTheGateway(t *testing.T) {
	c := sizing.Costs{Gateway: 60e6, WorstConnection: 100e3}
	for limit, want := range map[int64]int{
		0:      10_000, // none
		460e6:  2000,
		1e6:    100,
		60e6:   100,
		2060e6: 10_000,
		100e9:  10_000,
	} {
		if got := sizing.MaxConnections(limit, c); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}

func TestInputFollowsTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{0: 4 << 20, 1: 256 << 10, 512 << 20: 1 << 20, 1 << 40: 4 << 20} {
		if got := sizing.MaxInput(limit); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}

func TestUnwrittenResponsesFollowTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{0: 256 << 20, 512 << 20: 64 << 20} {
		if got := sizing.MaxUnwritten(limit); got != want {
			t.Errorf("%d: got %d, want %d", limit, got, want)
		}
	}
}
