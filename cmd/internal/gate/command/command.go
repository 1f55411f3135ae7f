package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/commandline"
)

// Environment is the input, the output and the variables of the process.
type Environment struct {
	In       io.Reader // nil for none
	Out, Err io.Writer
	// Variables are as os.Environ returns them.
	Variables []string
}

// New returns the command line of the program.
func New(e Environment) *cobra.Command {
	program := &cobra.Command{
		Use: "opsgate", Short: "The public HTTP edge of the operations platform",
		Long: `The public HTTP edge of the operations platform.

Each key of the configuration has an environment variable, which overrides the file:
OPSGATE_RATE_LIMIT_STORE sets rate_limit.store. GOGC, GOMEMLIMIT and AUTOMEMLIMIT are Go's garbage
collection target, its memory limit, and whether that follows the limit of the container (off: it
does not). NOTIFY_SOCKET is the socket for notifications to systemd: see sd_notify(3).

SIGTERM and SIGINT drain: /readyz fails, requests are served for shutdown.drain_wait so that load
balancers notice, the listener is closed, and requests in flight may take up to shutdown.grace. A
second signal ends the process at once. SIGHUP reloads the configuration, as does a change of its
files; an invalid configuration changes nothing.

Exit codes: 0 done, 1 failed, with the reason on standard error, 2 wrong usage.`,
	}
	program.AddCommand(
		serveCommand(e), checkCommand(e), configCommand(e), diffCommand(e), schemaCommand(e), healthcheckCommand(e),
		explainCommand(e), limitsCommand(e), replayCommand(e), usageCommand(e),
	)
	return program
}

// Run runs the program with its arguments, without its name, and returns the exit code: 0 done, 1
// failed, 2 wrong usage. The server drains when ctx ends.
func Run(ctx context.Context, arguments []string, e Environment) int {
	return commandline.Run(ctx, New(e), arguments, e.Out, e.Err)
}

// configFile is the flag of every command that reads the configuration.
type configFile struct{ Config string }

func (f *configFile) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Config, "config", "",
		"configuration `FILE` ($OPSGATE_CONFIG, else /etc/opsgate/opsgate.yaml if there is one)")
}

// load loads the configuration of a gateway with a memory limit; 0 for none.
func (f configFile) load(e Environment, memory int64) (config.Loaded, error) {
	return config.Load(f.options(e, memory))
}

// options returns the options of load. Flags override everything else.
func (f configFile) options(e Environment, memory int64, flags ...config.Setting) config.Options {
	return config.Options{
		Path: f.Config, Environment: e.Variables, Flags: withValues(flags),
		MemoryLimit: memory, OpenFiles: maxOpenFiles(),
	}
}

// loadAdmin loads the admin section of the configuration. Problems elsewhere in the file are
// ignored, because the running gateway may still use an earlier configuration.
func (f configFile) loadAdmin(e Environment, flags ...config.Setting) (config.Loaded, error) {
	return config.Load(config.Options{
		Path: f.Config, Environment: e.Variables, Flags: withValues(flags), Under: "admin",
	})
}

// withValues returns the flags that have a value.
func withValues(flags []config.Setting) []config.Setting {
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

	Memory config.Bytes
}

func (f *gatewayFile) addTo(flags *pflag.FlagSet) {
	f.configFile.addTo(flags)
	commandline.Text(flags, &f.Memory, "memory", "",
		"memory limit of the gateway's container, as a `SIZE`; by default that of this process")
}

// load loads the configuration.
func (f gatewayFile) load(e Environment) (config.Loaded, error) {
	memory := limitIn(int64(f.Memory))
	if memory == 0 {
		memory, _ = limitMemory() // none without a container
	}
	return f.configFile.load(e, memory)
}

// configCommand prints each value and its origin.
func configCommand(e Environment) *cobra.Command {
	var file gatewayFile
	c := &cobra.Command{
		Use: "config", Short: "Print every value of a configuration and where it is set",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := file.load(e)
			if err != nil {
				return err
			}
			for _, value := range loaded.Effective() {
				fmt.Fprintln(e.Out, value)
			}
			return nil
		},
	}
	file.addTo(c.Flags())
	return c
}

func schemaCommand(e Environment) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file",
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = e.Out.Write(text)
			return err
		},
	}
}
