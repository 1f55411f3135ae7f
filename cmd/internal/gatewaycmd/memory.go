package gatewaycmd

import (
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent is the default of GOGC. The live heap of a gateway is small, so Go's default of 100 collects very often; 400 saved 12 to 25 %
// of the CPU time of a request for about 12 MiB.
const gcPercent = 400

// tuneCollector sets the garbage collection target unless GOGC does.
func tuneCollector(variables []string) {
	if !slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		debug.SetGCPercent(gcPercent)
	}
}

// limitMemory sets the memory limit of the process to 90 % of that of the container, unless GOMEMLIMIT does, and returns it in bytes. It
// returns 0 and the cause if there is none.
func limitMemory() (limit int64, err error) {
	limit, err = memlimit.Set()
	if limit == math.MaxInt64 {
		return 0, err
	}
	return limit, nil
}

// limitIn returns the memory limit of a gateway in a container with that memory.
func limitIn(container int64) int64 { return container / 10 * 9 }

func logMemory(logger *slog.Logger, limit int64, err error) {
	switch {
	case err != nil:
		logger.Debug("no memory limit", slog.String("cause", err.Error()))
	case limit > 0:
		logger.Debug("memory limit", slog.Int64("bytes", limit))
	}
}
