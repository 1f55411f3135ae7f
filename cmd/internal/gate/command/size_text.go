package command

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"opsgate/cmd/internal/gate/sizing"
)

// writePlan prints the bottleneck in the first line, then what is needed, and how much of each resource that is.
func writePlan(w io.Writer, d sizing.Demand, p sizing.Plan) error {
	fmt.Fprintf(w, "%s\n\n", bottleneckText(d, p))
	t := newTable(w)
	t.row("gateways", fmt.Sprintf("%d of %s processors and %s", p.Gateways, figure(d.Processors), sizeText(float64(d.Memory))))
	t.row("processors", fmt.Sprintf("%s busy of %s", figure(p.Processors), figure(d.Processors*float64(p.Gateways))))
	t.row("memory", fmt.Sprintf("%s in each gateway, for %s tokens",
		sizeText(float64(p.GatewayMemory)), approximately(float64(p.TokensOfGateway))))
	t.row("lookups", approximately(p.Lookups)+" per second at the identity service")
	if d.RedisMasters > 0 {
		t.row("redis", fmt.Sprintf("%s operations per second and %s, on %d",
			approximately(p.RedisOperations), sizeText(float64(p.RedisMemory)), d.RedisMasters))
	}
	t.row()
	t.row("RESOURCE", "NEEDED", "OF", "USED", "SAFE UP TO")
	for _, u := range p.Uses {
		text := figure
		if u.Resource == sizing.GatewayMemory {
			text = sizeText
		}
		t.row(u.Resource, text(u.Needed), text(u.Has), percentOf(u.Used()), percentOf(u.Safe))
	}
	return t.Flush()
}

// remedies has the ways to get more of each resource.
var remedies = map[string]string{
	sizing.GatewayProcessors: "more gateways (--replicas), or more --processors for each",
	sizing.GatewayMemory:     "more --memory, or more gateways with a balancer that keeps each token on one of them (--sticky)",
	sizing.CachedTokens:      "authn.max_entries, or a balancer that keeps each token on one gateway (--sticky)",
	sizing.LookupsInFlight:   "authn.max_lookups, a longer authn.fresh_for, or a faster identity service (--lookup-time)",
	sizing.OpenConnections:   "http.max_connections, which follows --memory, or more gateways (--replicas)",
	sizing.RequestsInFlight:  "http.max_in_flight, or faster services (--service-time)",
	sizing.CallsInFlight:     "upstream_calls.max_in_flight, or faster services (--service-time)",
	sizing.RedisProcessor:    "a Redis cluster (--redis-masters)",
	sizing.RedisConnections:  "more gateways (--replicas), or a Redis cluster (--redis-masters)",
}

// bottleneckText names the resource that is exhausted first, and the load at which it is.
func bottleneckText(d sizing.Demand, p sizing.Plan) string {
	b := p.Bottleneck()
	text := fmt.Sprintf("%s: %s used, safe up to %s", b.Resource, percentOf(b.Used()), percentOf(b.Safe))
	switch {
	case b.Strain() > 1:
		return "not enough: " + text + ". More of it: " + remedies[b.Resource]
	case b.PerToken:
		return "first bottleneck: " + text + ", with about " + approximately(float64(d.Tokens)/b.Strain()) + " tokens"
	default:
		return "first bottleneck: " + text + ", at about " + approximately(d.RPS/b.Strain()) + " requests per second"
	}
}

func percentOf(part float64) string {
	return strconv.FormatFloat(math.Ceil(part*100), 'f', 0, 64) + "%"
}

// approximately returns a number to three digits, with commas between thousands.
func approximately(n float64) string {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(max(n, 1)))-2))
	return count(math.Round(n/unit) * unit)
}

// count returns a number without its fraction, with commas between thousands.
func count(n float64) string {
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// figure returns a number to two digits after the point if it is small.
func figure(n float64) string {
	if n >= 100 {
		return count(n)
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

func sizeText(n float64) string {
	for _, unit := range []struct {
		bytes float64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}} {
		if n >= unit.bytes {
			return figure(n/unit.bytes) + " " + unit.name
		}
	}
	return figure(n/1024) + " KiB"
}
