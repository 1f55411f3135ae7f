// Command opsctl is the public API from a terminal, from CI and for AI agents.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"opsgate/cmd/internal/ctl/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the command, a second one the process
	info, err := os.Stdout.Stat()
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Variables: os.Environ(),
		Terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
	}))
}
