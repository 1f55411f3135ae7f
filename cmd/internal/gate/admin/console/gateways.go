package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
)

const (
	// rolloutTime is how long after the last change of a configuration gateways may have different ones. The page shows that at once.
	rolloutTime = time.Minute
	// upgradeTime is how long after the last start of a gateway the builds may differ.
	upgradeTime = 10 * time.Minute
	// recoveryTime is how long a gateway must have shared Redis before another one without it is a finding. After an outage of Redis,
	// gateways return to it within seconds of each other.
	recoveryTime = 10 * time.Second
	// maxNamedGateways is the number of gateways that a finding names.
	maxNamedGateways = 3
	// maxLines is the number of lines in the detail of a finding, before the number of further ones.
	maxLines = 5

	runbookVersions = "configuration.md#versions-differ"
)

// diagnoseGateways returns the problems that only a comparison of gateways shows. It does not compare gateways that cannot be read now.
func diagnoseGateways(f admin.Gateways, now time.Time) (list []Finding) {
	if f.State != admin.GatewaysCurrent {
		return nil
	}
	var silent, serving []admin.Gateway
	for _, g := range named(f.Gateways) {
		switch {
		case g.Silent:
			silent = append(silent, g)
		case !g.Unknown:
			serving = append(serving, g)
		}
	}
	list = append(list, diagnoseCutOff(serving, now)...)
	list = append(list, diagnoseSilent(silent, now)...)
	list = append(list, diagnoseRefused(serving)...)
	staying := slices.DeleteFunc(serving, func(g admin.Gateway) bool { return g.Draining }) // others are replaced
	list = append(list, diagnoseConfigurations(staying, now)...)
	return append(list, diagnoseBuilds(staying, now)...)
}

// diagnoseCutOff finds gateways that do not share Redis while others do.
func diagnoseCutOff(gateways []admin.Gateway, now time.Time) []Finding {
	var cut, modes []string
	sharing, verdict, lost := 0, verdictImpaired, time.Time{}
	for _, g := range gateways {
		switch {
		case g.Mode == string(ratelimit.ModeShared):
			if g.ModeSince != nil && now.Sub(*g.ModeSince) >= recoveryTime {
				sharing++
			}
		case slices.Contains([]ratelimit.Mode{ratelimit.ModeLocal, ratelimit.ModeAllow, ratelimit.ModeDeny}, ratelimit.Mode(g.Mode)):
			if g.Mode == string(ratelimit.ModeDeny) {
				verdict = verdictBroken
			}
			cut, modes = append(cut, g.Host), append(modes, g.Mode)
			if g.ModeSince != nil && (lost.IsZero() || g.ModeSince.Before(lost)) {
				lost = *g.ModeSince
			}
		}
	}
	if len(cut) == 0 || sharing == 0 {
		return nil
	}
	slices.Sort(modes)
	who, others := names(cut), counted(sharing, "gateway")+" use"
	if sharing == 1 {
		others += "s"
	}
	f := Finding{
		Key: "gateways:cut-off:" + who, Verdict: verdict, Runbook: "gateways.md#one-gateway-has-lost-redis",
		Text:   fmt.Sprintf("%s: Redis not in use%s, while %s it", who, forTime(lost, now), others),
		Detail: "rate limits there: " + strings.Join(slices.Compact(modes), ", "),
	}
	if verdict == verdictBroken {
		f.Impact = "with the mode deny, every request there gets 503"
		f.Action = "remove it from the balancer; then run redis-cli ping from that machine"
	}
	return []Finding{f}
}

// diagnoseSilent finds gateways that are not heard, and did not end in order.
func diagnoseSilent(silent []admin.Gateway, now time.Time) []Finding {
	if len(silent) == 0 {
		return nil
	}
	var who, lines []string
	for _, g := range silent {
		who = append(who, g.Host)
		if g.HeardAt != nil {
			lines = append(lines, g.Host+": last heard "+duration.Rounded(now.Sub(*g.HeardAt))+" ago")
		}
	}
	f := Finding{
		Key: "gateways:silent:" + names(who), Verdict: verdictImpaired, Runbook: "gateways.md#a-gateway-is-not-heard",
		Text:   names(who) + " have not been heard",
		Detail: "they were killed, hang, or have lost Redis\n" + joined(lines),
	}
	if len(silent) == 1 {
		f.Text, f.Detail = who[0]+" has not been heard", "it was killed, hangs, or has lost Redis"
		if at := silent[0].HeardAt; at != nil {
			f.Text += forTime(*at, now)
		}
	}
	return []Finding{f}
}

// diagnoseRefused finds other gateways that refused their configuration. This gateway has a finding with the reason.
func diagnoseRefused(gateways []admin.Gateway) []Finding {
	var who []string
	for _, g := range gateways {
		if g.ConfigRefused && !g.Self {
			who = append(who, g.Host)
		}
	}
	if len(who) == 0 {
		return nil
	}
	return []Finding{{
		Key: "gateways:refused:" + names(who), Verdict: verdictImpaired, Text: names(who) + " refused the configuration on disk",
		Detail: "the page and the log there have the reason", Runbook: "configuration.md#a-reload-failed",
	}}
}

// diagnoseConfigurations finds configurations that differ, and limits in them, and have not changed for rolloutTime.
func diagnoseConfigurations(gateways []admin.Gateway, now time.Time) []Finding {
	var last time.Time
	for _, g := range gateways {
		if g.ConfigSince != nil && g.ConfigSince.After(last) {
			last = *g.ConfigSince
		}
	}
	if now.Sub(last) < rolloutTime {
		return nil
	}
	return append(
		differences(gateways, "configurations", last, now, func(g admin.Gateway) string { return g.ConfigVersion }),
		differences(gateways, "sets of limits", last, now, func(g admin.Gateway) string { return g.LimitsVersion })...,
	)
}

// diagnoseBuilds finds builds that differ, if no gateway has started for upgradeTime.
func diagnoseBuilds(gateways []admin.Gateway, now time.Time) []Finding {
	if len(gateways) == 0 {
		return nil
	}
	youngest := slices.MinFunc(gateways, func(a, b admin.Gateway) int { return cmp.Compare(a.Up, b.Up) })
	up := time.Duration(youngest.Up * float64(time.Second))
	if up < upgradeTime {
		return nil
	}
	return differences(gateways, "builds", now.Add(-up), now, func(g admin.Gateway) string {
		return strings.TrimSpace(g.Version + " " + g.Revision)
	})
}

// differences returns a finding if a value is not the same on all gateways that report it. The text has the number of values, the detail
// which gateway has which.
func differences(gateways []admin.Gateway, what string, since, now time.Time, value func(admin.Gateway) string) []Finding {
	byValue := make(map[string][]string)
	for _, g := range gateways {
		byValue[value(g)] = append(byValue[value(g)], g.Host)
	}
	delete(byValue, "")
	if len(byValue) < 2 {
		return nil
	}
	var lines []string
	for _, v := range slices.Sorted(maps.Keys(byValue)) {
		lines = append(lines, v+" on "+names(byValue[v]))
	}
	return []Finding{{
		Key: "gateways:" + what, Verdict: verdictImpaired, Runbook: runbookVersions,
		Text:   fmt.Sprintf("%d %s among %d gateways%s", len(byValue), what, len(gateways), forTime(since, now)),
		Detail: joined(lines),
	}}
}

// named returns the gateways with a name as host: with the address of the admin listener if several have the same host or none.
func named(gateways []admin.Gateway) []admin.Gateway {
	list, hosts := slices.Clone(gateways), make(map[string]int)
	for _, g := range list {
		hosts[g.Host]++
	}
	for i, g := range list {
		if g.Host == "" || hosts[g.Host] > 1 {
			list[i].Host = cmp.Or(strings.TrimSpace(g.Host+" "+g.AdminListen), g.ID)
		}
	}
	return list
}

// joined returns the lines of a detail. Their number is bounded, because there may be hundreds of gateways, or of endpoints of a service.
func joined(lines []string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(slices.Clone(lines[:maxLines]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// names returns a list of gateways, with a bounded number of names.
func names(list []string) string {
	if more := len(list) - maxNamedGateways; more > 0 {
		list = append(slices.Clone(list[:maxNamedGateways]), counted(more, "more gateway"))
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
