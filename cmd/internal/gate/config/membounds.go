package config

// Memory of a gateway. `make attack ATTACK=Memory` measures it.
const (
	// gatewayMemory is the resident memory of a gateway under load, without tokens.
	gatewayMemory = 70 << 20
	// WorstConnection is the memory in use of a TLS connection whose client makes it use as much as
	// possible, without the garbage of past handshakes.
	WorstConnection = 76 << 10
)

// Bounds of the automatic number of connections.
const (
	minConnections = 100 // even if the memory limit is too small for the gateway itself
	maxConnections = 10_000
)

// Bounds of the bytes of incomplete headers.
const (
	// inputDivisor makes the bound a 512th of the memory limit. net/http keeps up to 20 bytes for
	// each byte, so the headers take at most a 25th of the limit.
	inputDivisor = 512
	minInput     = 256 << 10
	maxInput     = 4 << 20
)

// Bounds of bodies that are arriving, and of responses that clients have not read: fractions of the
// memory limit.
const (
	unwrittenDivisor = 8         // of the responses
	bodiesDivisor    = 16        // of the buffers of bodies, and again of their HTTP/2 streams
	maxUnwritten     = 256 << 20 // of the responses without a memory limit
)

// MaxConnections returns http.max_connections; for auto the number that fits into the memory limit.
func (l Loaded) MaxConnections() int {
	if n := l.HTTP.MaxConnections; n != Auto {
		return int(n)
	}
	return l.fittingConnections()
}

// reservedFiles is the number of open files for everything except public connections: 256 admin
// connections, up to 32 connections to each Redis server, connections to services, and files.
const reservedFiles = 512

// ConnectionFiles returns how many of the open files connections may use.
func (l Loaded) ConnectionFiles() int64 { return max(minConnections, l.OpenFiles-reservedFiles) }

// boundByFiles reports whether the limit of open files allows fewer connections than the memory
// limit.
func (l Loaded) boundByFiles() bool {
	return l.OpenFiles > 0 && l.ConnectionFiles() < int64(l.connectionsInMemory())
}

// fittingConnections returns how many connections fit into the limit of open files, and, at
// WorstConnection each, into the memory limit.
func (l Loaded) fittingConnections() int {
	if l.boundByFiles() {
		return int(l.ConnectionFiles())
	}
	return l.connectionsInMemory()
}

func (l Loaded) connectionsInMemory() int {
	if l.MemoryLimit == 0 {
		return maxConnections
	}
	return int(min(max(l.ConnectionMemory()/WorstConnection, minConnections), maxConnections))
}

// ConnectionMemory returns how much of the memory limit connections may use: half of what remains
// beside the gateway itself. Arriving bodies may use an eighth of the limit, unwritten responses
// another eighth, and requests in flight, cached tokens and accounts the rest.
func (l Loaded) ConnectionMemory() int64 { return max(0, l.MemoryLimit-gatewayMemory) / 2 }

// MaxInput returns the maximum number of bytes of incomplete headers and handshakes over all
// connections.
func (l Loaded) MaxInput() int64 {
	if l.MemoryLimit == 0 {
		return maxInput
	}
	return min(max(l.MemoryLimit/inputDivisor, minInput), maxInput)
}

// MaxBodies returns the maximum number of bytes in the buffers of arriving bodies. Their HTTP/2
// streams have a separate maximum of the same size.
func (l Loaded) MaxBodies() int64 { return l.MaxUnwritten() * unwrittenDivisor / bodiesDivisor }

// MaxUnwritten returns the maximum number of bytes of responses that clients have not read.
func (l Loaded) MaxUnwritten() int64 {
	if l.MemoryLimit == 0 {
		return maxUnwritten
	}
	return l.MemoryLimit / unwrittenDivisor
}
