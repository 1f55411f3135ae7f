package config

// Memory of a gateway. `make attack ATTACK=Memory` measures it.
const (
	// gatewayMemory is the resident memory of a gateway under load, without tokens.
	gatewayMemory = 70 << 20
	// WorstConnection is a TLS connection whose client does its worst: memory that stays in use,
	// not that of past handshakes until the next garbage collection.
	WorstConnection = 76 << 10
)

// Bounds of the automatic number of connections.
const (
	minConnections = 100 // even if the memory limit is too small for the gateway itself
	maxConnections = 10_000
)

// Input of incomplete headers.
const (
	// inputDivisor is the part of the memory limit that bounds the bytes. net/http keeps up to 20
	// bytes for each, so the headers take at most a 25th of the limit.
	inputDivisor = 512
	minInput     = 256 << 10
	maxInput     = 4 << 20
)

// Bodies that are arriving, and responses that clients have not read.
const (
	unwrittenDivisor = 8         // the part of the memory limit
	bodiesDivisor    = 16        // for their buffers, and for HTTP/2 streams
	maxUnwritten     = 256 << 20 // without a memory limit
)

// MaxConnections returns http.max_connections; for auto the number that fits into the memory limit.
func (l Loaded) MaxConnections() int {
	if n := l.HTTP.MaxConnections; n != Auto {
		return int(n)
	}
	return l.fittingConnections()
}

// reservedFiles is the number of open files for all but public connections: 256 admin connections,
// up to 32 to each Redis server, those to services, and files.
const reservedFiles = 512

// ConnectionFiles returns how many of the open files connections may use.
func (l Loaded) ConnectionFiles() int64 { return max(minConnections, l.OpenFiles-reservedFiles) }

// boundByFiles reports whether the limit of open files is for fewer connections than the memory
// limit.
func (l Loaded) boundByFiles() bool {
	return l.OpenFiles > 0 && l.ConnectionFiles() < int64(l.connectionsInMemory())
}

// fittingConnections returns how many connections fit into the memory limit, if the client of each
// does its worst, and into the limit of open files.
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
// beside the gateway itself. Bodies that are arriving may use an eighth of the limit, unwritten
// responses another, and requests in flight, cached tokens and accounts the rest.
func (l Loaded) ConnectionMemory() int64 { return max(0, l.MemoryLimit-gatewayMemory) / 2 }

// MaxInput returns the maximum of bytes of incomplete headers and handshakes over all connections.
func (l Loaded) MaxInput() int64 {
	if l.MemoryLimit == 0 {
		return maxInput
	}
	return min(max(l.MemoryLimit/inputDivisor, minInput), maxInput)
}

// MaxBodies returns the maximum of bytes of the buffers of bodies that are arriving, which is that
// of their HTTP/2 streams too.
func (l Loaded) MaxBodies() int64 { return l.MaxUnwritten() * unwrittenDivisor / bodiesDivisor }

// MaxUnwritten returns the maximum of bytes of responses that clients have not read.
func (l Loaded) MaxUnwritten() int64 {
	if l.MemoryLimit == 0 {
		return maxUnwritten
	}
	return l.MemoryLimit / unwrittenDivisor
}
