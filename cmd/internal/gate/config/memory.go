package config

import (
	"fmt"

	"opsgate/cmd/internal/gate/sizing"
)

const maxConnectionsKey = "http.max_connections"

// MaxConnections returns http.max_connections; for auto the number that fits into the memory limit.
func (l Loaded) MaxConnections() int {
	if n := l.HTTP.MaxConnections; n != Auto {
		return int(n)
	}
	return sizing.MaxConnections(l.MemoryLimit, sizing.Measured())
}

// memoryText returns where an automatic number comes from.
func (l Loaded) memoryText() string {
	if l.MemoryLimit == 0 {
		return "without a memory limit"
	}
	return "from the memory limit of " + l.limitText()
}

func (l Loaded) limitText() string { return fmt.Sprintf("%d MiB", l.MemoryLimit/int64(mebi)) }

// memory warns of more connections than fit into the memory limit.
func (w *warner) memory() {
	l := w.loaded
	if l.MemoryLimit == 0 || l.HTTP.MaxConnections == Auto {
		return
	}
	need := int64(l.HTTP.MaxConnections) * sizing.Measured().WorstConnection
	if room := sizing.ConnectionMemory(l.MemoryLimit, sizing.Measured()); need > room {
		w.warn(maxConnectionsKey, "is %d, which can need %d MiB: of the memory limit of %s connections may use %d MiB; auto is %d here",
			l.HTTP.MaxConnections, need/int64(mebi), l.limitText(), room/int64(mebi), sizing.MaxConnections(l.MemoryLimit, sizing.Measured()))
	}
}
