package config

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"opsgate/authn"
	"opsgate/ratelimit"
)

// nameLimits names the limits that have no name after their interval.
func (c *Config) nameLimits() {
	for i := range c.RateLimit.Limits {
		if limit := &c.RateLimit.Limits[i]; limit.Name == "" {
			limit.Name = limitName(limit.Per)
		}
	}
}

func limitName(per Duration) string {
	switch time.Duration(per) {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return per.String()
}

// A validator finds what is wrong with values that could be decoded.
type validator struct {
	config   *Config
	origins  map[string]origin
	file     string
	refused  Problems // by the decoder: what is said of a key there is enough
	problems Problems
}

// where returns where a key was given, or the nearest thing around it that was.
func (v *validator) where(key string) origin {
	for key != "" {
		if at, ok := v.origins[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return origin{name: v.file}
}

func (v *validator) refuse(key, format string, args ...any) {
	for _, p := range v.refused {
		if p.Key == key {
			return
		}
	}
	v.problems = append(v.problems, problem(v.where(key), key, format, args...))
}

func (v *validator) validate() Problems {
	c := v.config
	v.bounds(reflect.ValueOf(*c), "")
	v.listenAddress("listen", c.Listen)
	v.listenAddress("admin.listen", c.Admin.Listen)
	if c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0") {
		v.refuse("admin.listen", "is the address of the public API, %s: operators need one of their own", c.Listen)
	}
	if err := (authn.TokenFormat{Prefix: c.TokenPrefix}).Validate(); err != nil {
		v.refuse("token_prefix", "makes no token: %v", err)
	}
	v.timeouts()
	v.rateLimit()
	v.upstreams()
	return v.problems
}

// timeouts checks what must be shorter than what.
func (v *validator) timeouts() {
	c := v.config
	if c.HTTP.ReadTimeout < c.HTTP.ReadHeaderTimeout {
		v.refuse("http.read_timeout", "is %s, less than read_header_timeout of %s, which is a part of it",
			c.HTTP.ReadTimeout, c.HTTP.ReadHeaderTimeout)
	}
	if c.HTTP.WriteTimeout <= c.HTTP.RequestTimeout {
		v.refuse("http.write_timeout", "is %s, not more than request_timeout of %s: a late answer could not be written",
			c.HTTP.WriteTimeout, c.HTTP.RequestTimeout)
	}
	if c.UpstreamCalls.DeadlineMargin >= c.HTTP.RequestTimeout {
		v.refuse("upstream_calls.deadline_margin", "is %s, not less than http.request_timeout of %s",
			c.UpstreamCalls.DeadlineMargin, c.HTTP.RequestTimeout)
	}
	if c.Authn.StaleFor < c.Authn.FreshFor {
		v.refuse("authn.stale_for", "is %s, less than fresh_for of %s", c.Authn.StaleFor, c.Authn.FreshFor)
	}
}

func (v *validator) rateLimit() {
	c := v.config.RateLimit
	if c.Store == StoreRedis {
		v.refuse("rate_limit.store", "is redis, which this version cannot use yet; memory is the only store it has")
	}
	for i, address := range c.Redis.Addresses {
		v.hostPort(fmt.Sprintf("rate_limit.redis.addresses[%d]", i), address)
	}
	const key = "rate_limit.limits"
	if len(c.Limits) < 1 || len(c.Limits) > ratelimit.MaxLimits {
		v.refuse(key, "has %d limits; it takes 1 to %d", len(c.Limits), ratelimit.MaxLimits)
	}
	names, pers := make(map[string]bool), make(map[Duration]bool)
	for i, limit := range c.Limits {
		at := fmt.Sprintf("%s[%d]", key, i)
		if pers[limit.Per] {
			v.refuse(at+".per", "is %s, as of another limit: the smaller would decide alone", limit.Per)
		} else if names[limit.Name] {
			v.refuse(at+".name", "is %q, as of another limit", limit.Name)
		}
		names[limit.Name], pers[limit.Per] = true, true
		if !isLimitName(limit.Name) {
			v.refuse(at+".name", "is 1 to 32 characters of a-z, A-Z, 0-9, ., _ and -, not %q", limit.Name)
		}
	}
}

func isLimitName(name string) bool {
	allowed := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	return name != "" && len(name) <= 32 && strings.IndexFunc(name, func(r rune) bool { return !allowed(r) }) < 0
}

// upstreams checks the form of the addresses, as gRPC reads them. Whether anybody answers there is for the readiness page.
func (v *validator) upstreams() {
	u := reflect.ValueOf(v.config.Upstreams)
	for _, f := range fields(u.Type()) {
		key := "upstreams." + f.name + ".address"
		address := u.FieldByIndex(f.Index).FieldByName("Address").String()
		scheme, rest, found := strings.Cut(address, "://")
		switch {
		case address == "":
			v.refuse(key, "is required: where is the %s service?", f.name)
		case !found:
			v.hostPort(key, strings.TrimPrefix(address, "dns:"))
		case scheme == "dns" || scheme == "passthrough":
			_, target, _ := strings.Cut(rest, "/") // the authority, for dns a server to ask, stands before it
			v.hostPort(key, target)
		case scheme != "unix" || rest == "":
			v.refuse(key, "is host:port, dns:///host:port, passthrough:///host:port or unix:///path, not %q", address)
		}
	}
}

// listenAddress checks an address to listen on: its host may be missing.
func (v *validator) listenAddress(key, address string) {
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		v.refuse(key, "is an address such as 127.0.0.1:8080 or :8080, not %q", address)
	}
}

// hostPort checks an address to connect to.
func (v *validator) hostPort(key, address string) {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || !isPort(port) || port == "0" {
		v.refuse(key, "has an address host:port, not %q", address)
	}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
