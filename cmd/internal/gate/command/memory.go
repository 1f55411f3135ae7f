package command

import (
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// gcPercent is the default of GOGC. The live heap of a gateway is small, so Go's default of 100
	// collects very often; 400 saved 12 to 25 % of the CPU time of a request for about 12 MiB.
	gcPercent = 400
	// garbagePart is the part of the memory limit that garbage takes at most. A flood of
	// connections makes the live heap large: four times as much garbage would reach the memory
	// limit, and then the garbage collector runs all the time.
	garbagePart = 8
	// minGCPercent bounds the time of the garbage collector.
	minGCPercent = 50
)

// tuneCollector sets the garbage collection target, under a memory limit in bytes (0 for none),
// unless GOGC does.
func tuneCollector(variables []string, memoryLimit int64) {
	if slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		return
	}
	debug.SetGCPercent(gcPercent)
	if memoryLimit > 0 {
		limitGarbage(&gcTarget{max: memoryLimit / garbagePart, percent: gcPercent})
	}
}

// gcTarget is the current garbage collection target.
type gcTarget struct {
	max     int64 // bytes of garbage
	percent int
}

// limitGarbage adjusts the target after each garbage collection: a finalizer runs then.
func limitGarbage(t *gcTarget) {
	type cycle struct{ target *gcTarget } // with a pointer, so that it is not allocated together with other objects
	runtime.SetFinalizer(&cycle{t}, func(c *cycle) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		if percent := targetFor(int64(sample[0].Value.Uint64()), c.target.max); percent != c.target.percent {
			c.target.percent = percent
			debug.SetGCPercent(percent)
		}
		limitGarbage(c.target)
	})
}

// targetFor returns the garbage collection target for a live heap and a maximum of garbage.
func targetFor(live, maxGarbage int64) int {
	return int(min(gcPercent, max(minGCPercent, maxGarbage/max(1, live/100))))
}

// limitMemory sets the memory limit of the process to 90 % of that of the container, unless
// GOMEMLIMIT does, and returns it in bytes. It returns 0 and the cause if there is none.
func limitMemory() (limit int64, err error) {
	limit, err = memlimit.Set()
	if limit == math.MaxInt64 {
		return 0, err
	}
	return limit, nil
}

// maxOpenFiles returns the maximum of open files of the process, 0 for none. Go has raised it as
// far as the process may.
func maxOpenFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int64(limit.Cur)
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
