package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/config"
	"opsgate/cmd/internal/edge"
	"opsgate/cmd/internal/logging"
)

type serve struct {
	configFile

	Listen      string `placeholder:"ADDR" help:"Address of the public API, over what the file says; port 0 takes a free one."`
	AdminListen string `placeholder:"ADDR" help:"Address of the admin listener, likewise."`
	LogLevel    string `placeholder:"LEVEL" help:"debug, info, warn or error, likewise."`
}

// Run serves until ctx ends, and drains.
func (c *serve) Run(ctx context.Context, e Environment) (err error) {
	loaded, err := c.load(e,
		config.Setting{Key: "listen", Value: c.Listen, From: "--listen"},
		config.Setting{Key: "admin.listen", Value: c.AdminListen, From: "--admin-listen"},
		config.Setting{Key: "log.level", Value: c.LogLevel, From: "--log-level"},
	)
	if err != nil {
		return err
	}
	log := logging.New(logging.Options{
		Writer: e.Err, Level: loaded.Log.Level.Slog(), Text: loaded.Log.Format == config.FormatText,
	})
	defer func() { err = errors.Join(err, log.Close()) }()
	for _, warning := range loaded.Warnings {
		log.Warn("configuration", slog.String("warning", warning.Error()))
	}
	tuneMemory(e.Variables, log.Logger)

	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	stop := logHangUps(hangUps, log.Logger)
	defer stop()

	gateway, err := edge.Listen(ctx, edge.Options{Config: loaded.Config, Logger: log.Logger, Build: buildinfo.Read()})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return gateway.Run(ctx)
}

// logHangUps answers SIGHUP with a log line until it is stopped: whoever sends one expects a reload, and by default it would end the
// process.
func logHangUps(hangUps <-chan os.Signal, logger *slog.Logger) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangUps:
				logger.Warn("SIGHUP is ignored: the configuration is read at the start alone")
			case <-ending:
				return
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}
