package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// minDenied is the number of denied calls from which a method is a finding. OpsgateServiceRefuses in
// deploy/prometheus has the same.
const minDenied = 5

// denials counts the calls of a method in the last five minutes that the service answered, with any
// code but Unavailable: an open breaker refuses most calls of a method that is always denied.
type denials struct {
	answered, denied uint64 // denied: with PermissionDenied
	ongoing          bool   // most of the latest ones were denied
}

// denials returns the denials by "service.method".
func (h *history) denials() map[string]denials {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]denials, len(h.routes))
	for name, s := range h.routes {
		var d denials
		for _, at := range h.latest(latencyPoints) {
			denied := uint64(s.requests[at][rejected])
			if n := uint64(s.requests[at][answered]) + denied; n > 0 {
				d.answered, d.denied, d.ongoing = d.answered+n, d.denied+denied, 2*denied > n
			}
		}
		all[name] = d
	}
	return all
}

// diagnoseDenials finds the methods of a service most of whose calls are denied. A service may deny a
// resource to a team, but then other calls succeed: it, or a policy in front of it, refuses the gateway
// itself.
func diagnoseDenials(service string, all map[string]denials) *Finding {
	var methods, details []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of, method, _ := strings.Cut(name, ".")
		if d := all[name]; of == service && d.denied >= minDenied && 2*d.denied > d.answered && d.ongoing {
			methods = append(methods, method)
			details = append(details, fmt.Sprintf("%s: %d of %s in the last 5m", method, d.denied, counted(int(d.answered), "call")))
		}
	}
	if methods == nil {
		return nil
	}
	return &Finding{
		Key: "refused:" + service, Verdict: verdictBroken, Runbook: "services.md#a-service-refuses-the-gateway",
		Text: service + ": PermissionDenied for most calls of " + strings.Join(methods, ", "), Detail: joined(details),
	}
}
