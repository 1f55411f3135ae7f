package command

import (
	"context"
	"fmt"
	"io"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/commandline"
)

// Environment is the output and the variables of the process.
type Environment struct {
	Out, Err io.Writer
	// Variables are as os.Environ returns them.
	Variables []string
}

// commands is the grammar of the command line.
type commands struct {
	Serve       serve       `cmd:"" help:"Serve the public API until SIGTERM."`
	Check       check       `cmd:"" help:"Validate a configuration and report every problem; exit 1 if there is one."`
	Config      effective   `cmd:"" help:"Print every value of a configuration and where it is set."`
	Schema      schema      `cmd:"" help:"Print the JSON Schema of the configuration file."`
	Healthcheck healthcheck `cmd:"" help:"Report whether a gateway is ready; exit 1 if it is not."`
	Explain     explain     `cmd:"" help:"Show how a running gateway would answer a request, and why."`
	Limits      limits      `cmd:"" help:"Show what remains of a token's limits in a running gateway, or reset them."`
	Size        size        `cmd:"" help:"Estimate the gateways, memory and Redis that a load needs, and what is exhausted first."`
	Replay      replay      `cmd:"" help:"Replay recorded demand under a configuration; exit 1 if the result exceeds a bound."`
	Audit       audit       `cmd:"" help:"Prove from recorded demand that no token was admitted more than its limits; exit 1 if one was."`
	Suggest     suggest     `cmd:"" help:"Print the smallest limits that would have denied at most a part of the recorded demand."`
	Conformance conform     `cmd:"" help:"Test internal services against the contract; exit 1 if one violates it."`

	commandline.Commands
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1 failed, 2 wrong usage. The server drains
// when ctx ends.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	return commandline.Program{
		Name: "opsgate",
		Description: "The public HTTP edge of the operations platform. An environment variable can set each key of the configuration: " +
			"OPSGATE_RATE_LIMIT_STORE sets rate_limit.store.",
		About: about(), Out: environment.Out, Err: environment.Err,
	}.Run(ctx, new(commands), arguments, environment)
}

// configFile is the flag of every command that reads the configuration.
type configFile struct {
	Config string `placeholder:"FILE" help:"Configuration file ($$OPSGATE_CONFIG, else /etc/opsgate/opsgate.yaml if there is one)."`
}

// load loads the configuration of a gateway with a memory limit; 0 for none. Flags override everything else.
func (f configFile) load(e Environment, memory int64, flags ...config.Setting) (config.Loaded, error) {
	return config.Load(config.Options{Path: f.Config, Environment: e.Variables, Overrides: given(flags), MemoryLimit: memory})
}

// loadAdmin loads the admin section of the configuration. Problems elsewhere in the file are ignored, because the running gateway may
// still use an earlier configuration.
func (f configFile) loadAdmin(e Environment, flags ...config.Setting) (config.Loaded, error) {
	return config.Load(config.Options{Path: f.Config, Environment: e.Variables, Overrides: given(flags), Under: "admin"})
}

// given returns the flags that have a value.
func given(flags []config.Setting) []config.Setting {
	var list []config.Setting
	for _, flag := range flags {
		if flag.Value != "" {
			list = append(list, flag)
		}
	}
	return list
}

// gatewayFile is the flags of commands that read the configuration as serve does, without serving.
type gatewayFile struct {
	configFile

	Memory config.Bytes `placeholder:"SIZE" help:"Memory limit of the gateway's container; by default that of this process."`
}

// load loads the configuration.
func (f gatewayFile) load(e Environment) (config.Loaded, error) {
	memory := limitIn(int64(f.Memory))
	if memory == 0 {
		memory, _ = limitMemory() // none without a container
	}
	return f.configFile.load(e, memory)
}

type check struct {
	gatewayFile
}

// Run loads the configuration as serve does, without listening.
func (c *check) Run(e Environment) error {
	loaded, err := c.load(e)
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	if loaded.Path == "" {
		fmt.Fprintf(e.Out, "the configuration of defaults and OPSGATE_ variables is valid; %s\n", config.NoFileText)
		return nil
	}
	fmt.Fprintf(e.Out, "the configuration from %s is valid\n", loaded.Path)
	return nil
}

type effective struct {
	gatewayFile
}

// Run prints each value and its origin.
func (c *effective) Run(e Environment) error {
	loaded, err := c.load(e)
	if err != nil {
		return err
	}
	for _, value := range loaded.Effective() {
		fmt.Fprintln(e.Out, admin.Value(value))
	}
	return nil
}

type schema struct{}

// Run prints the schema.
func (schema) Run(e Environment) error {
	text, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = e.Out.Write(text)
	return err
}
