package authn

import "math/bits"

// A Scope is a permission that a token may carry (specification, part 5).
type Scope string

// The scopes that exist.
const (
	AuditRead             Scope = "audit:read"
	CommandsRead          Scope = "commands:read"
	IncidentsRead         Scope = "incidents:read"
	IncidentsWrite        Scope = "incidents:write"
	MetricsRead           Scope = "metrics:read"
	MonitorsRead          Scope = "monitors:read"
	ScheduledCommandsRead Scope = "scheduled-commands:read"
	ServersRead           Scope = "servers:read"
	StatusPagesRead       Scope = "status-pages:read"
)

// AllScopes returns every scope that exists, sorted. The slice is the caller's.
func AllScopes() []Scope {
	return []Scope{
		AuditRead, CommandsRead, IncidentsRead, IncidentsWrite, MetricsRead, MonitorsRead, ScheduledCommandsRead,
		ServersRead, StatusPagesRead,
	}
}

// bit is the scope's place in a set: the sets are compared at every request, and a switch over constants takes a fraction
// of what a map does. It is 0 for a scope that does not exist.
func (s Scope) bit() uint16 {
	switch s {
	case AuditRead:
		return 1 << 0
	case CommandsRead:
		return 1 << 1
	case IncidentsRead:
		return 1 << 2
	case IncidentsWrite:
		return 1 << 3
	case MetricsRead:
		return 1 << 4
	case MonitorsRead:
		return 1 << 5
	case ScheduledCommandsRead:
		return 1 << 6
	case ServersRead:
		return 1 << 7
	case StatusPagesRead:
		return 1 << 8
	default:
		return 0
	}
}

// Scopes is an immutable set of scopes. Its zero value is the empty set.
type Scopes struct {
	set   uint16
	names []string // sorted; made once, as every answer of /v1/me needs it
}

// NewScopes returns the set of the scopes given. Those that do not exist are left out: an identity service may know more
// scopes than this edge does, and none of them opens anything here.
func NewScopes(scopes ...Scope) Scopes {
	var set uint16
	for _, s := range scopes {
		set |= s.bit()
	}
	names := make([]string, 0, bits.OnesCount16(set))
	for _, s := range AllScopes() {
		if set&s.bit() != 0 {
			names = append(names, string(s))
		}
	}
	return Scopes{set: set, names: names}
}

// Has tells whether the set holds the scope. A scope that does not exist is in no set, so a mistyped requirement refuses.
func (s Scopes) Has(scope Scope) bool {
	return s.set&scope.bit() != 0
}

// Strings returns the scopes as text, sorted; it is never nil. The slice is shared and must not be modified.
func (s Scopes) Strings() []string {
	if s.names == nil {
		return []string{}
	}
	return s.names
}
