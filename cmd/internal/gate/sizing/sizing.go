package sizing

import (
	"math"
	"time"
)

// heartbeatsPerSecond is the number of calls of Redis by each gateway in addition to decisions.
const heartbeatsPerSecond = 0.5

// redisLatency is the time from a call of Redis to its answer, in one data center.
const redisLatency = time.Millisecond

// Fractions of a resource that can be used without delays.
const (
	safeProcessors = 0.7 // room for bursts, garbage collection, and a gateway that is replaced
	safeRedis      = 0.5 // calls wait for the one thread
	safeMemory     = 0.6 // Go collects garbage more often as the heap comes near its limit
	safeBound      = 0.8 // above it, chance decides which requests reach the bound
)

// A Demand is the load of an installation, and the installation.
type Demand struct {
	RPS        float64 // requests per second, over all gateways
	Tokens     int     // that make requests within Window, all equally busy
	Handshakes float64 // TLS handshakes per second, over all gateways
	Open       int     // connections of clients with TLS, over all gateways
	Sticky     bool    // the balancer sends all requests of a token to one gateway

	Gateways     int     // 0 for as many as the processors need
	Processors   float64 // of each gateway
	Memory       int64   // of each gateway, in bytes
	RedisMasters int     // that share the tokens; 0 for limits in memory

	ServiceTime time.Duration // from a request to the answer of the service
	LookupTime  time.Duration // from the lookup of a token to the answer of the identity service

	Settings
}

// Settings are the settings of the gateways that matter here.
type Settings struct {
	Window       time.Duration // longest of the limits
	AccountBytes int           // of a token
	FreshFor     time.Duration // authn.fresh_for
	MaxEntries   int           // authn.max_entries
	MaxLookups   int           // authn.max_lookups, as far as it is effective
	MaxInFlight  int           // http.max_in_flight
	MaxOpen      int           // http.max_connections
	MaxCalls     int           // upstream_calls.max_in_flight
	RedisPool    int           // connections of a gateway to a Redis
}

// A Use is the use of one resource.
type Use struct {
	Resource string  `json:"resource"`
	Needed   float64 `json:"needed"`
	Has      float64 `json:"has"`
	Safe     float64 `json:"safe"`      // fraction of Has that can be used
	PerToken bool    `json:"per_token"` // it grows with the tokens, else with the requests
}

// Used returns the used fraction.
func (u Use) Used() float64 { return u.Needed / u.Has }

// Strain returns the used fraction of the safe part; above 1 there is too little.
func (u Use) Strain() float64 { return u.Used() / u.Safe }

// A Plan is what a Demand needs.
type Plan struct {
	Gateways        int     `json:"gateways"`
	Processors      float64 `json:"processors"`       // busy, over all gateways
	GatewayMemory   int64   `json:"gateway_bytes"`    // live memory of each gateway
	TokensOfGateway int     `json:"gateway_tokens"`   // that each gateway has served within the window
	Lookups         float64 `json:"lookups"`          // per second, over all gateways
	RedisOperations float64 `json:"redis_operations"` // per second
	RedisMemory     int64   `json:"redis_bytes"`      // over all masters
	Uses            []Use   `json:"uses"`
}

// Names of resources.
const (
	GatewayProcessors = "processors of a gateway"
	GatewayMemory     = "memory of a gateway"
	CachedTokens      = "cached tokens" //nolint:gosec // no credential
	LookupsInFlight   = "lookups in flight"
	OpenConnections   = "open connections"
	RequestsInFlight  = "requests in flight"
	CallsInFlight     = "calls in flight to a service"
	RedisProcessor    = "processor of a Redis"
	RedisConnections  = "connections to a Redis"
)

// Estimate returns what a demand needs. Numbers and times of the demand that are not described as 0 for something are positive.
func Estimate(d Demand, c Costs) Plan {
	n := max(1, d.Gateways)
	p := estimate(d, c, n)
	for d.Gateways == 0 && p.Uses[0].Strain() > 1 && n < maxGateways { // no division: the number of lookups depends on n
		n++
		p = estimate(d, c, n)
	}
	return p
}

// maxGateways bounds the search, for demands that no number of gateways meets.
const maxGateways = 100_000

func estimate(d Demand, c Costs, n int) Plan {
	p := Plan{Gateways: n}
	perToken := d.RPS / float64(d.Tokens) // requests per second
	served := d.served(perToken, n)
	p.TokensOfGateway = int(math.Ceil(served))
	p.Lookups = d.lookups(perToken, served, n)

	request := c.Request
	if d.RedisMasters > 0 {
		request += c.RedisCall
		p.RedisOperations = d.RPS + heartbeatsPerSecond*float64(n)
		p.RedisMemory = int64(d.Tokens) * (c.StoredAccount + int64(d.AccountBytes))
	}
	p.Processors = d.RPS*request.Seconds() + p.Lookups*c.Lookup.Seconds() + d.Handshakes*c.Handshake.Seconds()
	cached := math.Min(served, float64(d.MaxEntries))
	each := 1 / float64(n)
	open := float64(d.Open) * each
	p.GatewayMemory = c.Gateway + int64(open*float64(c.Connection)) + int64(cached)*c.Principal +
		int64(served)*(c.KeptAccount+int64(d.AccountBytes))

	p.Uses = []Use{
		{GatewayProcessors, p.Processors * each, d.Processors, safeProcessors, false},
		{GatewayMemory, float64(p.GatewayMemory), float64(d.Memory), safeMemory, true},
		{CachedTokens, served, float64(d.MaxEntries), 1, true},
		{LookupsInFlight, p.Lookups * each * d.LookupTime.Seconds(), float64(d.MaxLookups), safeBound, false},
		{OpenConnections, open, float64(d.MaxOpen), safeBound, false},
		{RequestsInFlight, d.RPS * each * d.ServiceTime.Seconds(), float64(d.MaxInFlight), safeBound, false},
		{CallsInFlight, d.RPS * each * d.ServiceTime.Seconds(), float64(d.MaxCalls), safeBound, false},
	}
	if d.RedisMasters > 0 {
		shard := 1 / float64(d.RedisMasters)
		p.Uses = append(p.Uses,
			Use{RedisProcessor, p.RedisOperations * shard * c.Decision.Seconds(), 1, safeRedis, false},
			Use{RedisConnections, d.RPS * each * shard * redisLatency.Seconds(), float64(d.RedisPool), safeBound, false})
	}
	return p
}

// served returns the number of tokens that one of n gateways serves within the window.
func (d Demand) served(perToken float64, n int) float64 {
	if d.Sticky {
		return float64(d.Tokens) / float64(n)
	}
	// A token's requests reach a gateway at random, so the probability that none of a window did is that of a Poisson process.
	return float64(d.Tokens) * -math.Expm1(-perToken*d.Window.Seconds()/float64(n))
}

// lookups returns the lookups per second over all gateways. A cached token is looked up again by its first request after two thirds of
// FreshFor; one that did not fit into the cache is looked up by each request.
func (d Demand) lookups(perToken, served float64, n int) float64 {
	cached := math.Min(1, float64(d.MaxEntries)/served)
	interval := 1 / perToken // of the requests of a token that reach the same gateway
	places := float64(d.Tokens)
	if !d.Sticky {
		interval *= float64(n)
		places *= float64(n)
	}
	renewed := places / (d.FreshFor.Seconds()*2/3 + interval)
	return cached*renewed + (1-cached)*d.RPS
}

// Bottleneck returns the resource that is nearest to its bound or furthest above it.
func (p Plan) Bottleneck() Use {
	first := p.Uses[0]
	for _, u := range p.Uses[1:] {
		if u.Strain() > first.Strain() {
			first = u
		}
	}
	return first
}

// Bounds of the automatic number of connections.
const (
	minConnections = 100 // even if the memory limit is too small for the gateway itself
	maxConnections = 10_000
)

// Input of incomplete headers.
const (
	// inputDivisor is the part of the memory limit that bounds the bytes. net/http keeps up to 20 bytes for each, so the headers take at
	// most a 25th of the limit.
	inputDivisor = 512
	minInput     = 256 << 10
	maxInput     = 4 << 20
)

// Responses that clients have not read.
const (
	unwrittenDivisor = 8         // the part of the memory limit
	maxUnwritten     = 256 << 20 // without a memory limit
)

// ConnectionMemory returns how much of a memory limit connections may use: half of what remains beside the gateway itself. Unwritten
// responses may use an eighth of the limit, and requests in flight, cached tokens and accounts the rest.
func ConnectionMemory(limit int64, c Costs) int64 { return max(0, limit-c.Gateway) / 2 }

// MaxConnections returns how many connections fit into a memory limit, if the client of each does its worst. A limit of 0 means none.
func MaxConnections(limit int64, c Costs) int {
	if limit == 0 {
		return maxConnections
	}
	return int(min(max(ConnectionMemory(limit, c)/c.WorstConnection, minConnections), maxConnections))
}

// MaxInput returns the maximum of bytes of incomplete headers and handshakes over all connections. A limit of 0 means none.
func MaxInput(limit int64) int64 {
	if limit == 0 {
		return maxInput
	}
	return min(max(limit/inputDivisor, minInput), maxInput)
}

// MaxUnwritten returns the maximum of bytes of responses that clients have not read. A limit of 0 means none.
func MaxUnwritten(limit int64) int64 {
	if limit == 0 {
		return maxUnwritten
	}
	return limit / unwrittenDivisor
}
