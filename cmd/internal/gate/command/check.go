package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
)

type check struct {
	gatewayFile

	Live, AllowExpired bool
	Timeout            time.Duration
}

func checkCommand(e Environment) *cobra.Command {
	var o check
	c := &cobra.Command{
		Use: "check", Short: "Validate a configuration and report every problem; exit 1 if there is one",
		Long: `Validate a configuration and report every problem; exit 1 if there is one.

It reports what keeps a gateway from starting on this machine, and certificates that are not valid
now; run it as the user of the gateway. A gateway starts with such a certificate, because the rest
of the API works: --allow-expired only warns of it, so that it stops no restart. --live also
connects to everything that a gateway calls, and does once what a gateway does with Redis, with keys
that expire.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), e) },
	}
	o.addTo(c.Flags())
	c.Flags().BoolVar(&o.Live, "live", false, "connect to the services, Redis and the trace collector")
	c.Flags().BoolVar(&o.AllowExpired, "allow-expired", false, "only warn of certificates that are not valid now")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Second, "`TIME` for all connections of --live")
	return c
}

// run loads the configuration as serve does, without listening.
func (o *check) run(ctx context.Context, e Environment) error {
	loaded, err := o.load(e)
	if err != nil {
		return err
	}
	checked := &wiring.Check{Loaded: loaded, OK: func(key, what string) {
		if o.Live {
			fmt.Fprintf(e.Out, "ok: %s: %s\n", key, what)
		}
	}}
	found := checked.Machine(ctx)
	if o.Live {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		found = checked.Live(ctx)
	}
	if !o.AllowExpired { // else they are among the warnings
		found = append(found, loaded.InvalidCertificates(time.Now())...)
	}
	if slices.ContainsFunc(found, func(p config.Problem) bool { return !p.Warning }) {
		return found.With(loaded.Warnings)
	}
	for _, problem := range found.With(loaded.Warnings) {
		fmt.Fprintln(e.Err, problem)
	}
	if loaded.Path == "" {
		fmt.Fprintf(e.Out, "the configuration of defaults and OPSGATE_ variables is valid; %s\n", config.NoFileText)
		return nil
	}
	fmt.Fprintf(e.Out, "the configuration from %s is valid\n", loaded.Path)
	return nil
}
