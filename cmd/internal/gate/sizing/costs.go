package sizing

import "time"

// Costs are measured costs. Times are of a processor. `go -C tools/edgebench run . costs` measures them again and fails if one is no longer
// true.
type Costs struct {
	// Request is a list of 20 servers in a gateway, the most expensive of the common requests, with limits in memory, RedisCall what limits in
	// Redis add to it, and Lookup what the lookup of its token adds.
	Request   time.Duration `json:"request_ns"`
	RedisCall time.Duration `json:"redis_call_ns"`
	Lookup    time.Duration `json:"lookup_ns"`
	// Handshake is a new TLS connection with a P-256 certificate, in a gateway.
	Handshake time.Duration `json:"handshake_ns"`
	// Decision is one call of the script in Redis, with reading the call and writing the answer, under two limits.
	Decision time.Duration `json:"decision_ns"`

	// Gateway is the resident memory of a gateway under load, without tokens.
	Gateway int64 `json:"gateway_bytes"`
	// Connection is an idle TLS connection in a gateway, and WorstConnection one whose client does its worst: memory that stays in use, not
	// that of past handshakes until the next garbage collection. `make attack` measures both.
	Connection      int64 `json:"connection_bytes"`
	WorstConnection int64 `json:"worst_connection_bytes"`
	// Principal is a cached token in a gateway, with names of usual length.
	Principal int64 `json:"principal_bytes"`
	// KeptAccount is what the account of a token takes in a gateway, and StoredAccount in Redis, in addition to the bytes of the account.
	KeptAccount   int64 `json:"kept_account_bytes"`
	StoredAccount int64 `json:"stored_account_bytes"`
}

// Measured returns the costs on a current x86 server processor.
func Measured() Costs {
	return Costs{
		Request:   105 * time.Microsecond,
		RedisCall: 40 * time.Microsecond,
		Lookup:    80 * time.Microsecond,
		Handshake: 600 * time.Microsecond,
		Decision:  35 * time.Microsecond,

		Gateway:         70 << 20,
		Connection:      40 << 10,
		WorstConnection: 76 << 10,
		Principal:       480,
		KeptAccount:     320,
		StoredAccount:   220,
	}
}
