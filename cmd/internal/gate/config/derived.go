package config

import "time"

const minBreakerWindow = 20 * time.Second

// longestTimeout is the longest time that a request may take once its body has arrived.
func (c Config) longestTimeout() time.Duration {
	longest := c.HTTP.RequestTimeout
	for _, route := range c.Routes {
		longest = max(longest, route.Timeout)
	}
	return time.Duration(longest)
}

// BreakerWindow is how long a breaker counts a call: longer than every timeout, because a breaker drops results older than its window.
func (c Config) BreakerWindow() time.Duration {
	return max(minBreakerWindow, 2*c.longestTimeout(), 2*time.Duration(c.Authn.LookUpTimeout))
}

// DialTimeout is the time to connect to Redis, TLS included.
func (r Redis) DialTimeout() time.Duration { return 2 * time.Duration(r.Timeout) }
