package console

import (
	"slices"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/duration"
)

const runbookRefusedCertificate = "configuration.md#a-certificate-is-refused"

// isOfCertificates reports whether all keys that a reload was refused for are of certificates and keys.
func isOfCertificates(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return !strings.HasSuffix(key, "_file") })
}

// diagnoseCertificates returns the certificates that are not valid yet, have ended, or end soon.
func diagnoseCertificates(list []config.Certificate, now time.Time) (findings []Finding) {
	for _, c := range list {
		left := c.Ends.Sub(now)
		wait := c.Begins.Sub(now)
		if left >= config.RenewBefore && wait <= 0 {
			continue
		}
		f := Finding{
			Key: "certificate:" + c.Key, Verdict: verdictImpaired, Text: c.Key + " expires in " + duration.Rounded(left),
			Runbook: "configuration.md#a-certificate-expires", Impact: "none until it expires",
			Deadline: c.Ends.Format(time.DateTime) + " UTC: then " + withoutCertificate(c.Key),
		}
		if left <= 0 {
			f.Verdict, f.Text = verdictBroken, c.Key+" expired "+duration.Rounded(-left)+" ago"
			f.Impact, f.Deadline = withoutCertificate(c.Key), "it stays so until it is renewed"
		} else if wait > 0 {
			f.Verdict, f.Text = verdictBroken, c.Key+" is not valid for another "+duration.Rounded(wait)
			f.Impact, f.Deadline = withoutCertificate(c.Key), "it stays so until "+c.Begins.Format(time.DateTime)+" UTC"
			f.Action = "compare date on this machine with another one; if it is right, use the previous certificate until then"
		}
		if strings.HasPrefix(c.Key, "tracing.") && f.Action == "" { // read at the start
			f.Action = "renew it, replace its file, and restart the gateways one after the other"
		}
		findings = append(findings, f)
	}
	return findings
}

// withoutCertificate returns what fails when the certificate or the roots of a key have expired.
func withoutCertificate(key string) string {
	switch service, _, _ := strings.Cut(strings.TrimPrefix(key, "upstreams."), "."); {
	case strings.HasPrefix(key, "upstreams."):
		return "new connections to " + service + " fail, and requests that need it get 503"
	case strings.HasPrefix(key, "rate_limit."):
		return "new connections to Redis fail, and limits are not shared"
	case strings.HasPrefix(key, "tracing."):
		return "traces are lost; requests are served"
	case strings.HasPrefix(key, "admin."):
		return "operators, probes and Prometheus cannot connect; requests are served"
	}
	return "clients cannot connect"
}
