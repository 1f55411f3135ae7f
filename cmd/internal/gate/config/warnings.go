package config

import (
	"fmt"
	"net"
	"time"

	"opsgate/ratelimit"
)

// maxStaleFor is the longest authn.stale_for without a warning.
const maxStaleFor = Duration(time.Hour)

// warn adds warnings of probable mistakes. The clock is time.Now if now is nil.
func (l *Loaded) warn(now func() time.Time) {
	if now == nil {
		now = time.Now
	}
	w := warner{loaded: l, now: now()}
	w.rateLimit()
	w.exposure()
	w.plaintext()
	w.tracing()
	w.shutdown()
	w.memory()
	l.Warnings = append(l.Warnings, w.warnings...).sorted()
}

// rateLimit warns of limits without the intended effect.
func (w *warner) rateLimit() {
	c := w.loaded.RateLimit
	if c.Store == StoreRedis && c.OnStoreFailure == FailLocal && c.ExpectedReplicas == 1 {
		w.warn("rate_limit.expected_replicas",
			"is 1: in an outage of Redis, each gateway admits the full limits; auto counts the gateways")
	}
	for _, a := range c.Assignments() {
		if a.Class != ratelimit.ClassDefault && len(a.Teams)+len(a.Tokens) == 0 {
			w.warn(a.Key, "has neither teams nor tokens: it limits no request")
		}
		w.unreached(a.limitsKey, a.Limits)
		if !a.Expires.IsZero() && !w.now.Before(a.Expires.Time) {
			w.warn(a.Key+".expires", "was %s: the limits of this key have no effect any more", a.Expires)
		}
	}
}

// unreached warns of limits that no token can reach because a limit of a shorter interval admits fewer requests.
func (w *warner) unreached(key string, limits []Limit) {
	for i, long := range limits {
		for _, short := range limits {
			if short.Shadow || short.Per >= long.Per {
				continue
			}
			// The requests that the shorter limit admits in the longer interval.
			admitted := (int64(long.Per) + int64(short.Per) - 1) / int64(short.Per) * int64(short.Requests)
			if admitted < int64(long.Requests) {
				w.warn(fmt.Sprintf("%s[%d].requests", key, i), "is %d, which no token reaches: %d per %s admit %d in %s",
					long.Requests, short.Requests, short.Per, admitted, long.Per)
				break
			}
		}
	}
}

// exposure warns of listeners and trust that are wider than usual.
func (w *warner) exposure() {
	c := w.loaded
	for i, network := range c.TrustedProxies {
		if network.Bits() == 0 {
			w.warn(fmt.Sprintf("trusted_proxies[%d]", i), "is every address: any client can claim any address in the audit log")
		}
	}
	if host, _, _ := net.SplitHostPort(c.Listen); !isLoopback(host) && c.TLS.CertFile == "" && len(c.TrustedProxies) == 0 {
		w.warn("listen", "is %s, not on loopback, without TLS: set tls.cert_file and key_file, or trusted_proxies if a proxy ends TLS", c.Listen)
	}
	host, _, _ := net.SplitHostPort(c.Admin.Listen) // valid, as checked by the validator
	if !isLoopback(host) && c.Admin.TLS.CertFile == "" {
		w.warn("admin.token", "goes over the network in plaintext: set admin.tls.cert_file and key_file")
	}
	if c.Authn.StaleFor > maxStaleFor {
		w.warn("authn.stale_for", "is %s: a revoked token may be accepted for that time while the identity service is unavailable",
			c.Authn.StaleFor)
	}
}

// shutdown warns of settings with which requests fail at each deployment.
func (w *warner) shutdown() {
	c := w.loaded
	if host, _, _ := net.SplitHostPort(c.Listen); c.Shutdown.DrainWait == 0 && !isLoopback(host) {
		w.warn("shutdown.drain_wait", "is 0s: load balancers have no time to stop sending requests before the listener closes")
	}
	if c.Shutdown.Grace < c.HTTP.RequestTimeout {
		w.warn("shutdown.grace", "is %s, less than http.request_timeout of %s: slow requests are cut off",
			c.Shutdown.Grace, c.HTTP.RequestTimeout)
	}
}

// A warner collects warnings.
type warner struct {
	loaded   *Loaded
	now      time.Time
	warnings Problems
}

func (w *warner) warn(key, format string, args ...any) {
	w.warnings = append(w.warnings, problem(w.loaded.where(key), key, format, args...))
}
