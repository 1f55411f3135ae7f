package admin

import "time"

// FleetState is where the view of the fleet comes from.
type FleetState string

// The states of a fleet.
const (
	FleetMemory  FleetState = "memory"  // limits are counted in memory: gateways have no common place, and only this one is listed
	FleetReading FleetState = "reading" // the first read is under way: only this gateway is listed
	FleetCurrent FleetState = "current" // as read from Redis within the last seconds
	FleetStale   FleetState = "stale"   // Redis cannot be read: the other gateways are as last read
)

// Fleet is the gateways that share a Redis, as one of them sees them.
type Fleet struct {
	State    FleetState `json:"state"`
	ReadAt   *time.Time `json:"read_at"`         // of the last successful read; null for none
	Error    string     `json:"error,omitempty"` // why Redis cannot be read, or why this gateway's status is not written; "" if all is well
	Gateways []Gateway  `json:"gateways"`        // this one and others, by host
	Omitted  int        `json:"gateways_left_out,omitempty"`
}

// Gateway is one gateway of a fleet. Its times are on the clock of the gateway that shows them.
type Gateway struct {
	ID      string     `json:"id"` // random, of one process
	Self    bool       `json:"self"`
	HeardAt *time.Time `json:"heard_at"` // last heartbeat; null for the gateway itself
	Silent  bool       `json:"silent"`   // it has missed three heartbeats, and did not end in order
	Unknown bool       `json:"unknown"`  // it sends heartbeats without a status that this version can read, as an older version does

	GatewayStatus
}

// GatewayStatus is what a gateway reports to the others. It contains no secret.
type GatewayStatus struct {
	Host          string     `json:"host"`
	AdminListen   string     `json:"admin_listen"` // address of the admin listener
	Version       string     `json:"version"`      // of the program
	Revision      string     `json:"revision"`
	ConfigVersion string     `json:"config_version"`
	ConfigSince   *time.Time `json:"config_since"` // when that configuration came into force
	ConfigRefused bool       `json:"config_refused"`
	Mode          string     `json:"mode"`       // of the limiter: shared, local, allow, deny; memory for the gateway itself
	ModeSince     *time.Time `json:"mode_since"` // null for memory
	Draining      bool       `json:"draining"`
	Breakers      []string   `json:"breakers"` // services whose breaker is not closed; never null
	RPS           float64    `json:"rps"`      // requests per second in the last point of the traffic history
	FailedRPS     float64    `json:"failed_rps"`
	LimitedRPS    float64    `json:"limited_rps"`
	Up            float64    `json:"up_seconds"`
	At            time.Time  `json:"at"` // when the status was taken, on the reporter's clock
}
