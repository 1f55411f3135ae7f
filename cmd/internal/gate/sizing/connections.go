package sizing

// Bounds of the automatic number of connections.
const (
	minConnections = 100 // even if the memory limit is too small for the gateway itself
	maxConnections = 10_000
)

// Input of incomplete headers.
const (
	// inputDivisor is the part of the memory limit that bounds the bytes. net/http keeps up to 20 bytes for each, so the headers take at
	// most a 25th of the limit.
	inputDivisor = 512
	minInput     = 256 << 10
	maxInput     = 4 << 20
)

// Responses that clients have not read.
const (
	unwrittenDivisor = 8         // the part of the memory limit
	maxUnwritten     = 256 << 20 // without a memory limit
)

// ConnectionMemory returns how much of a memory limit connections may use: half of what remains beside the gateway itself. Unwritten
// responses may use an eighth of the limit, and requests in flight, cached tokens and accounts the rest.
func ConnectionMemory(limit int64, c Costs) int64 { return max(0, limit-c.Gateway) / 2 }

// MaxConnections returns how many connections fit into a memory limit, if the client of each does its worst. A limit of 0 means none.
func MaxConnections(limit int64, c Costs) int {
	if limit == 0 {
		return maxConnections
	}
	return int(min(max(ConnectionMemory(limit, c)/c.WorstConnection, minConnections), maxConnections))
}

// MaxInput returns the maximum of bytes of incomplete headers and handshakes over all connections. A limit of 0 means none.
func MaxInput(limit int64) int64 {
	if limit == 0 {
		return maxInput
	}
	return min(max(limit/inputDivisor, minInput), maxInput)
}

// MaxUnwritten returns the maximum of bytes of responses that clients have not read. A limit of 0 means none.
func MaxUnwritten(limit int64) int64 {
	if limit == 0 {
		return maxUnwritten
	}
	return limit / unwrittenDivisor
}
