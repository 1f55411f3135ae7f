package gateway

import (
	"strconv"
	"strings"
	"time"

	"opsgate/ratelimit"
)

// policyHeader is the RateLimit-Policy field (draft-ietf-httpapi-ratelimit-headers): each limit's quota and window in seconds.
func policyHeader(p *ratelimit.Policy) string {
	var b []byte
	for i, limit := range p.Limits() {
		b = appendItem(b, i, limit.Name)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, int64(limit.Requests), 10)
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, wholeSeconds(limit.Per), 10)
	}
	return string(b)
}

// appendBudgets appends the RateLimit field: what is left of each limit, and in how many seconds there will be more.
func appendBudgets(b []byte, p *ratelimit.Policy, d ratelimit.Decision) []byte {
	for i, limit := range p.Limits() {
		b = appendItem(b, i, limit.Name)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, int64(d.Budgets[i].Remaining), 10)
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, wholeSeconds(d.Budgets[i].Reset), 10)
	}
	return b
}

// appendItem begins a member of a structured field's list (RFC 9651): a string, whose two special characters are escaped.
func appendItem(b []byte, i int, name string) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	for j := range len(name) {
		if name[j] == '"' || name[j] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[j])
	}
	return append(b, '"')
}

// wholeSeconds rounds up: a client that waits that long has waited long enough.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// limitText says a limit in words: 3 requests per second.
func limitText(l ratelimit.Limit) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(l.Requests))
	b.WriteString(" request")
	if l.Requests != 1 {
		b.WriteByte('s')
	}
	b.WriteString(" per ")
	switch l.Per {
	case time.Second:
		b.WriteString("second")
	case time.Minute:
		b.WriteString("minute")
	case time.Hour:
		b.WriteString("hour")
	case 24 * time.Hour:
		b.WriteString("day")
	default:
		b.WriteString(l.Per.String())
	}
	return b.String()
}
