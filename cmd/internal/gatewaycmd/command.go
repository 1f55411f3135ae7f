package gatewaycmd

import (
	"context"
	"fmt"
	"io"

	"opsgate/cmd/internal/commandline"
	"opsgate/cmd/internal/config"
)

// An Environment is what the program has of the outside.
type Environment struct {
	Out, Err io.Writer
	// Variables are as os.Environ returns them.
	Variables []string
}

// commands is the grammar of the command line.
type commands struct {
	Serve       serve       `cmd:"" help:"Serve the public API until SIGTERM."`
	Check       check       `cmd:"" help:"Say everything that is wrong with a configuration; exit 1 if anything is."`
	Schema      schema      `cmd:"" help:"Print the JSON Schema of the configuration file."`
	Healthcheck healthcheck `cmd:"" help:"Ask a gateway on this machine whether it is ready; exit 1 if it is not."`
	Explain     explain     `cmd:"" help:"Ask a running gateway what it would answer a request, and why."`
	Limits      limits      `cmd:"" help:"Ask a running gateway what is left of a token's limits, or reset them."`
	Replay      replay      `cmd:"" help:"Tell what a configuration would have made of recorded demand; exit 1 if that passes a bound."`
	Conformance conform     `cmd:"" help:"Hold internal services to the contract; exit 1 if one does not keep it."`

	commandline.Commands
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1 failed, 2 wrong usage. A
// gateway that serves drains when ctx ends.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	return commandline.Program{
		Name: "opsgate",
		Description: "The public HTTP edge of the operations platform. Every key of the configuration can also be set by a variable, " +
			"as rate_limit.store by OPSGATE_RATE_LIMIT_STORE.",
		About: about(), Out: environment.Out, Err: environment.Err,
	}.Run(ctx, new(commands), arguments, environment)
}

// configFile is what every command that reads the configuration needs.
type configFile struct {
	Config string `placeholder:"FILE" help:"Configuration file ($$OPSGATE_CONFIG, else /etc/opsgate/opsgate.yaml if there is one)."`
}

// load loads the configuration, with flags over everything else.
func (f configFile) load(e Environment, flags ...config.Setting) (config.Loaded, error) {
	return config.Load(config.Options{Path: f.Config, Environment: e.Variables, Overrides: given(flags)})
}

// loadAdmin loads what says how operators reach the gateway. Whatever else is wrong with the file, the gateway that runs by an earlier
// one can be asked.
func (f configFile) loadAdmin(e Environment, flags ...config.Setting) (config.Loaded, error) {
	return config.Load(config.Options{Path: f.Config, Environment: e.Variables, Overrides: given(flags), Under: "admin"})
}

// given returns the flags that somebody gave.
func given(flags []config.Setting) []config.Setting {
	var list []config.Setting
	for _, flag := range flags {
		if flag.Value != "" {
			list = append(list, flag)
		}
	}
	return list
}

type check struct {
	configFile
}

// Run loads the configuration as serve does, and binds nothing.
func (c *check) Run(e Environment) error {
	loaded, err := c.load(e)
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	if loaded.Path == "" {
		fmt.Fprintf(e.Out, "the configuration of defaults and OPSGATE_ variables is good; %s\n", config.NoFile)
		return nil
	}
	fmt.Fprintf(e.Out, "the configuration from %s is good\n", loaded.Path)
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
