package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/policies"
	"opsgate/cmd/internal/gate/sizing"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/kit/commandline"
)

type size struct {
	Demand sizing.Demand
	Memory config.Bytes
	Store  config.Store
	Config string
	JSON   bool
}

func sizeCommand(e Environment) *cobra.Command {
	s := &size{}
	c := &cobra.Command{
		Use: "size", Short: "Estimate the gateways, memory and Redis that a load needs, and what is exhausted first",
		RunE: func(*cobra.Command, []string) error { return s.run(e) },
	}
	flags, d := c.Flags(), &s.Demand
	flags.Float64Var(&d.RPS, "rps", 0, "`N` requests per second, over all gateways")
	flags.IntVar(&d.Tokens, "tokens", 0, "`N` tokens in use within the longest window of the limits")
	flags.IntVar(&d.Gateways, "replicas", 0, "`N` gateways; by default as many as the processors need")
	flags.Float64Var(&d.Processors, "processors", 2, "`N` processors of each gateway")
	commandline.Text(flags, &s.Memory, "memory", "512MiB", "memory limit of each gateway, as a `SIZE`")
	flags.Float64Var(&d.Handshakes, "handshakes", 0, "`N` new TLS connections per second, over all gateways")
	flags.IntVar(&d.Open, "connections", 0, "`N` open TLS connections, over all gateways")
	flags.BoolVar(&d.Sticky, "sticky", false, "the balancer sends all requests of a token to the same gateway")
	commandline.Enum(flags, &s.Store, "store", config.StoreRedis, "`STORE` in which limits are counted: redis, memory",
		config.StoreRedis, config.StoreMemory)
	flags.IntVar(&d.RedisMasters, "redis-masters", 1, "`N` servers that share the tokens: more than one in a cluster")
	flags.DurationVar(&d.ServiceTime, "service-time", 10*time.Millisecond, "`TIME` in which the services answer")
	flags.DurationVar(&d.LookupTime, "lookup-time", 5*time.Millisecond, "`TIME` in which the identity service answers")
	flags.StringVar(&s.Config, "config", "", "configuration `FILE` with the limits and bounds; the defaults without it")
	flags.BoolVar(&s.JSON, "json", false, "print JSON, with the costs that the estimate uses")
	commandline.Required(c, "rps", "tokens")
	return c
}

// maxSize bounds the numbers on the command line, so that no product of them overflows.
const maxSize = 1e9

// check returns a usage error for an invalid number.
func (c *size) check() error {
	d := c.Demand
	for _, n := range []float64{
		d.RPS, float64(d.Tokens), float64(d.Gateways), d.Processors, d.Handshakes, float64(d.Open), float64(d.RedisMasters),
	} {
		if !(n >= 0 && n <= maxSize) { // also refuses NaN
			return commandline.UsageError{Err: fmt.Errorf("numbers are 0 to %.0f", maxSize)}
		}
	}
	if d.RPS == 0 || d.Tokens == 0 || d.Processors == 0 || c.Memory <= 0 || d.RedisMasters == 0 {
		return commandline.UsageError{
			Err: errors.New("--rps, --tokens, --processors, --memory and --redis-masters must be more than 0"),
		}
	}
	if d.ServiceTime < 0 || d.LookupTime < 0 {
		return commandline.UsageError{Err: errors.New("--service-time and --lookup-time must not be negative")}
	}
	return nil
}

// run prints what the load needs, and what is exhausted first.
func (c *size) run(e Environment) error {
	if err := c.check(); err != nil {
		return err
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	demand := c.Demand
	demand.Memory, demand.Settings = int64(c.Memory), settings
	if c.Store == config.StoreMemory {
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
		FreshFor: time.Duration(loaded.Authn.FreshFor), MaxEntries: loaded.Authn.MaxEntries, MaxLookups: wiring.MaxLookups(loaded.Config),
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
