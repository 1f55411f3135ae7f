package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/systemd"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/internal/buildinfo"
	"opsgate/internal/filereader"
)

type serve struct {
	configFile

	Listen, AdminListen, LogLevel string // override the configuration
}

func serveCommand(e Environment) *cobra.Command {
	s := &serve{}
	c := &cobra.Command{
		Use: "serve", Short: "Serve the public API until SIGTERM",
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), e) },
	}
	s.addTo(c.Flags())
	c.Flags().StringVar(&s.Listen, "listen", "", "`ADDR` of the public API; overrides the file. Port 0 takes a free one")
	c.Flags().StringVar(&s.AdminListen, "admin-listen", "", "`ADDR` of the admin listener; overrides the file")
	c.Flags().StringVar(&s.LogLevel, "log-level", "", "`LEVEL` of the log: debug, info, warn or error; overrides the file")
	return c
}

// run serves until ctx ends, and then drains.
func (c *serve) run(ctx context.Context, e Environment) (err error) {
	memory, noLimit := limitMemory()
	options := c.options(e, memory,
		config.Setting{Key: "listen", Value: c.Listen, From: "--listen"},
		config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"},
		config.Setting{Key: "log.level", Value: c.LogLevel, From: "--log-level"},
	)
	options.Reader = new(filereader.Reader)
	loaded, err := config.Load(options)
	if err != nil {
		return err
	}
	log, level := wiring.NewLog(e.Err, loaded)
	defer func() { err = errors.Join(err, log.Close()) }()
	if loaded.Path == "" {
		log.Info("no configuration file: serving with defaults, variables and flags", slog.String("why", config.NoFileText))
	}
	tuneCollector(e.Variables, memory)
	logMemory(log.Logger, memory, noLimit)

	public, err := systemd.PublicListener()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}

	hangUps := make(chan os.Signal, 1) // one reload covers several signals
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	gateway, err := wiring.Listen(ctx, wiring.Options{
		Loaded: loaded, Load: func() (config.Loaded, error) { return config.Load(options) }, ReloadSignals: hangUps,
		LogLevel: level, Logger: log.Logger, Build: buildinfo.Read(), Notifier: systemd.NewNotifier(log.Logger),
		Listener: public,
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return gateway.Run(ctx)
}
