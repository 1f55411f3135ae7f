package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const minBreakerWindow = 20 * time.Second

// longestTimeout is the longest time that a request may take once its body has arrived.
func (c Config) longestTimeout() time.Duration {
	longest := c.HTTP.RequestTimeout
	for _, route := range c.Routes {
		longest = max(longest, route.Timeout)
	}
	return time.Duration(longest)
}

// BreakerWindow is how long a breaker counts a call. It is longer than every timeout, because a
// breaker closes after a window without results.
func (c Config) BreakerWindow() time.Duration {
	return max(minBreakerWindow, 2*c.longestTimeout(), 2*time.Duration(c.Authn.LookupTimeout))
}

// responseTime is the minimum time to write a response after the deadline of its request. On a busy
// machine, the response is made some time after the deadline.
const responseTime = Duration(100 * time.Millisecond)

// A timeout is a key with its value.
type timeout struct {
	key   string
	value Duration
}

// String returns the key with its value.
func (t timeout) String() string { return fmt.Sprintf("%s (%s)", t.key, t.value) }

// timeouts checks that the timeouts are consistent.
func (v *validator) timeouts() {
	c := v.loaded
	request := timeout{"http.request_timeout", c.HTTP.RequestTimeout}
	v.writeTimeout(request)
	v.mustExceed(request, "a call that hangs takes all of its time",
		append([]timeout{{"authn.lookup_timeout", c.Authn.LookupTimeout}}, v.redisTimeout()...)...)
	if c.Authn.StaleFor < c.Authn.FreshFor {
		v.refuse("authn.stale_for", "is %s, less than fresh_for of %s", c.Authn.StaleFor, c.Authn.FreshFor)
	}
}

// routeTimeout checks the timeout of an operation. It may be less than authn.lookup_timeout, which
// is for all operations.
func (v *validator) routeTimeout(route timeout) {
	v.writeTimeout(route)
	v.mustExceed(route, "its requests are not counted in Redis", v.redisTimeout()...)
}

// writeTimeout checks that write_timeout leaves time to write a response made at the deadline of a
// request.
func (v *validator) writeTimeout(request timeout) {
	http := v.loaded.HTTP
	v.mustExceed(timeout{"http.write_timeout", http.WriteTimeout}, "a late response could not be written",
		request, timeout{"http.body_timeout", http.BodyTimeout}, timeout{"the time to write", responseTime})
}

// redisTimeout returns the timeout of Redis, or nothing if requests are not counted there.
func (v *validator) redisTimeout() []timeout {
	if v.loaded.RateLimit.Store != StoreRedis {
		return nil
	}
	return []timeout{{redisKey + ".timeout", v.loaded.RateLimit.Redis.Timeout}}
}

// mustExceed reports a problem unless whole exceeds the sum of parts. The problem is at whole, or
// else at the first of the parts, that the operator has set. The defaults are consistent.
func (v *validator) mustExceed(whole timeout, consequence string, parts ...timeout) {
	var sum Duration
	texts := make([]string, len(parts))
	for i, part := range parts {
		sum += part.value
		texts[i] = part.String()
	}
	if len(parts) == 0 || whole.value > sum {
		return
	}
	text := fmt.Sprintf("must be more than %s, else %s", strings.Join(texts, " + "), consequence)
	if v.loaded.sets(whole.key) {
		v.refuse(whole.key, "is %s, and %s", whole.value, text)
		return
	}
	i := slices.IndexFunc(parts, func(t timeout) bool { return v.loaded.sets(t.key) })
	v.refuse(parts[max(0, i)].key, "%s %s", whole, text)
}
