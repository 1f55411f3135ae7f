package authn

import "math/bits"

// A Scope is a permission that a token may carry (docs/integrate/contract.md, "Scopes and plan").
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

// AllScopes returns every scope that exists, sorted. The caller may modify the slice.
func AllScopes() []Scope {
	return []Scope{
		AuditRead, CommandsRead, IncidentsRead, IncidentsWrite, MetricsRead, MonitorsRead, ScheduledCommandsRead,
		ServersRead, StatusPagesRead,
	}
}

// bit returns the scope's bit in a set, or 0 for a scope that does not exist. Each request compares
// sets, and a switch is much faster than a map.
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
	names []string // sorted; precomputed for GET /v1/me
}

// NewScopes returns the set of the given scopes. Scopes that do not exist are left out: the
// identity service may support more than this gateway.
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

// Has reports whether the set contains the scope. No set contains a scope that does not exist, so a
// misspelled scope is denied.
func (s Scopes) Has(scope Scope) bool {
	return s.set&scope.bit() != 0
}

// Strings returns the scopes as text, sorted; it is never nil. The slice is shared and must not be
// modified.
func (s Scopes) Strings() []string {
	if s.names == nil {
		return []string{}
	}
	return s.names
}
