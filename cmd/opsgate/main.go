// Command opsgate is the public HTTP edge of the operations platform.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/command"
)

// heapProfileEvery is the number of allocated bytes for each sample of the heap profile, which is a
// trace of some sixty calls. Go's default of 512 KiB takes 1 to 3 % of the CPU time of a request.
const heapProfileEvery = 2 << 20

func main() {
	runtime.MemProfileRate = heapProfileEvery
	backendclient.DisableGRPCLog()
	signal.Ignore(syscall.SIGPIPE) // a closed log must not end the gateway
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains, a second one ends at once
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Variables: os.Environ(),
	}))
}
