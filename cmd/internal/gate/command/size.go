package command

import (
	"errors"
	"fmt"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/policies"
	"opsgate/cmd/internal/gate/sizing"
	"opsgate/cmd/internal/gate/wiring"
)

type size struct {
	RPS        float64      `name:"rps" required:"" placeholder:"N" help:"Requests per second, over all gateways."`
	Tokens     int          `required:"" placeholder:"N" help:"Tokens in use within the longest window of the limits."`
	Replicas   int          `placeholder:"N" help:"Gateways; by default as many as the processors need."`
	Processors float64      `default:"2" placeholder:"N" help:"Processors of each gateway (${default})."`
	Memory     config.Bytes `default:"512MiB" placeholder:"SIZE" help:"Memory limit of each gateway (${default})."`
	Handshakes float64      `placeholder:"N" help:"New TLS connections per second, over all gateways (${default})." default:"0"`
	Open       int          `name:"connections" placeholder:"N" help:"Open TLS connections, over all gateways (${default})." default:"0"`
	Sticky     bool         `help:"The balancer sends all requests of a token to the same gateway."`

	Store        string `default:"redis" enum:"redis,memory" placeholder:"STORE" help:"Where limits are counted: redis, memory (${default})."`
	RedisMasters int    `default:"1" placeholder:"N" help:"Servers that share the tokens: more than one in a cluster (${default})."`

	ServiceTime time.Duration `default:"10ms" placeholder:"TIME" help:"Time in which the services answer (${default})."`
	LookUpTime  time.Duration `default:"5ms" placeholder:"TIME" help:"Time in which the identity service answers (${default})."`

	Config string `placeholder:"FILE" help:"Configuration with the limits and bounds; the defaults without it."`
	JSON   bool   `name:"json" help:"Print JSON, with the costs that the estimate uses."`
}

// maxSize bounds the numbers on the command line, so that no product of them overflows.
const maxSize = 1e9

// Validate implements kong's check of a command's arguments.
func (c *size) Validate() error {
	for _, n := range []float64{
		c.RPS, float64(c.Tokens), float64(c.Replicas), c.Processors, c.Handshakes, float64(c.Open), float64(c.RedisMasters),
	} {
		if !(n >= 0 && n <= maxSize) { // also refuses NaN
			return fmt.Errorf("numbers are 0 to %.0f", maxSize)
		}
	}
	if c.RPS == 0 || c.Tokens == 0 || c.Processors == 0 || c.Memory <= 0 || c.RedisMasters == 0 {
		return errors.New("--rps, --tokens, --processors, --memory and --redis-masters must be more than 0")
	}
	if c.ServiceTime < 0 || c.LookUpTime < 0 {
		return errors.New("--service-time and --look-up-time must not be negative")
	}
	return nil
}

// Run prints what the load needs, and what is exhausted first.
func (c *size) Run(e Environment) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	demand := sizing.Demand{
		RPS: c.RPS, Tokens: c.Tokens, Handshakes: c.Handshakes, Open: c.Open, Sticky: c.Sticky,
		Gateways: c.Replicas, Processors: c.Processors, Memory: int64(c.Memory), RedisMasters: c.RedisMasters,
		ServiceTime: c.ServiceTime, LookUpTime: c.LookUpTime, Settings: settings,
	}
	if config.Store(c.Store) == config.StoreMemory {
		demand.RedisMasters = 0
	}
	costs := sizing.Measured()
	plan := sizing.Estimate(demand, costs)
	if !c.JSON {
		return writePlan(e.Out, demand, plan)
	}
	return writeJSON(e.Out, struct {
		sizing.Plan

		Bottleneck string       `json:"bottleneck"`
		Costs      sizing.Costs `json:"costs"`
	}{plan, plan.Bottleneck().Resource, costs})
}

// settings returns the settings of the configuration that matter here.
func (c *size) settings() (s sizing.Settings, err error) {
	loaded := config.Loaded{Config: config.Default(), MemoryLimit: limitIn(int64(c.Memory))}
	if c.Config != "" {
		if loaded, err = config.Load(config.Options{Path: c.Config, MemoryLimit: loaded.MemoryLimit}); err != nil {
			return s, err
		}
	}
	s = sizing.Settings{
		FreshFor: time.Duration(loaded.Authn.FreshFor), MaxEntries: loaded.Authn.MaxEntries, MaxLookUps: wiring.MaxLookUps(loaded.Config),
		MaxInFlight: loaded.HTTP.MaxInFlight, MaxOpen: loaded.MaxConnections(), MaxCalls: loaded.UpstreamCalls.MaxInFlight,
		RedisPool: wiring.RedisConnections,
	}
	current, err := policies.New(loaded, time.Now(), nil)
	if err != nil {
		return s, err
	}
	for _, a := range current.All() {
		s.AccountBytes = max(s.AccountBytes, a.Policy.MaxAccountBytes())
		for _, l := range a.Policy.Limits() {
			s.Window = max(s.Window, l.Per)
		}
	}
	return s, nil
}
