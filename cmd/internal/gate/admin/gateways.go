package admin

import (
	"encoding/json"
	"math"
	"time"
)

// GatewaysState is where the view of the gateways comes from.
type GatewaysState string

// The states of the view.
const (
	GatewaysMemory  GatewaysState = "memory"  // limits are counted in memory: gateways have no common place, and only this one is listed
	GatewaysReading GatewaysState = "reading" // a read is under way: the other gateways are as last read, or not listed
	GatewaysCurrent GatewaysState = "current" // as read from Redis within the last seconds
	GatewaysStale   GatewaysState = "stale"   // Redis cannot be read: the other gateways are as last read within an hour
)

// Gateways are the gateways that share a Redis, as one of them sees them.
type Gateways struct {
	State    GatewaysState `json:"state"`
	ReadAt   *time.Time    `json:"read_at"`         // of the last successful read; null for none
	Error    string        `json:"error,omitempty"` // why Redis cannot be read, or why this gateway's status is not written; "" if all is well
	Gateways []Gateway     `json:"gateways"`        // this one and others, by host
	Omitted  int           `json:"omitted,omitempty"`
}

// Gateway is one gateway of those that share a Redis. Its times are on the clock of the gateway that shows them.
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
	LimitsVersion string     `json:"limits_version"` // of the limits of all tokens in the configuration; "" from an older version
	Mode          string     `json:"mode"`           // of the limiter: shared, local, allow, deny; memory for the gateway itself
	ModeSince     *time.Time `json:"mode_since"`     // null for memory
	Draining      bool       `json:"draining"`
	Ready         *bool      `json:"ready"`    // it takes requests, as on /readyz; null from an older version
	Breakers      []string   `json:"breakers"` // services whose breaker is not closed; never null
	RPS           float64    `json:"rps"`      // requests per second in the last point of the traffic history
	FailedRPS     float64    `json:"failed_rps"`
	LimitedRPS    float64    `json:"limited_rps"`
	Up            float64    `json:"up_seconds"`
	At            time.Time  `json:"at"` // when the status was taken, on the reporter's clock
}

// Bounds of a status that another process wrote, and of this gateway's own.
const (
	maxStatusText = 64 // characters
	maxBreakers   = 8
	maxBreaker    = 16 // characters of a service's name
	maxStatusRate = 1e9
	maxStatusAge  = 10 * 365 * 24 * time.Hour
)

// Encode returns the status as other gateways read it, at most 1 KiB if its texts are ASCII.
func (s GatewayStatus) Encode() []byte {
	s.bound()
	text, _ := json.Marshal(s) // cannot fail: bound leaves finite numbers, and times of four-digit years
	return text
}

// DecodeStatus returns a status that another gateway wrote and that was heard at a moment on this gateway's clock. Unknown fields are
// ignored, as a newer version may write them; ok is false for what is not a status. Times are shifted to this gateway's clock, texts are
// printable, and numbers are bounded.
func DecodeStatus(data []byte, heardAt time.Time) (s GatewayStatus, ok bool) {
	if json.Unmarshal(data, &s) != nil || s.At.IsZero() {
		return GatewayStatus{}, false
	}
	s.ConfigSince, s.ModeSince = shifted(s.ConfigSince, s.At, heardAt), shifted(s.ModeSince, s.At, heardAt)
	s.bound()
	return s, true
}

// shifted returns a moment before at, which is on another clock, as a moment before heardAt.
func shifted(moment *time.Time, at, heardAt time.Time) *time.Time {
	if moment == nil {
		return nil
	}
	local := heardAt.Add(-min(max(0, at.Sub(*moment)), maxStatusAge)).UTC().Truncate(time.Millisecond)
	return &local
}

// bound limits the fields to what is shown.
func (s *GatewayStatus) bound() {
	for _, text := range []*string{&s.Host, &s.AdminListen, &s.Version, &s.Revision, &s.ConfigVersion, &s.LimitsVersion, &s.Mode} {
		*text = printable(*text, maxStatusText)
	}
	breakers := make([]string, min(len(s.Breakers), maxBreakers)) // not nil
	for i := range breakers {
		breakers[i] = printable(s.Breakers[i], maxBreaker)
	}
	s.Breakers = breakers
	for _, rate := range []*float64{&s.RPS, &s.FailedRPS, &s.LimitedRPS, &s.Up} {
		*rate = math.Round(min(max(0, *rate), maxStatusRate)*10) / 10
	}
	if s.At = s.At.UTC(); s.At.Year() < 1 || s.At.Year() > 9999 { // does not have a JSON form
		s.At = time.Time{}
	}
}
