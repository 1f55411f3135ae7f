// Command opsctl is the public API from a terminal, from CI and for AI agents.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"opsgate/cmd/internal/ctl/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the command, a second one the process
	info, err := os.Stdout.Stat()
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Variables: os.Environ(),
		Terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, Width: terminalWidth(),
	}))
}

// terminalWidth returns the columns of the terminal that the output goes to; 0 if it goes
// elsewhere.
func terminalWidth() int {
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
