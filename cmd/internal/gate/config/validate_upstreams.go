package config

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const routesKey = "routes"

// upstreams checks the form of the addresses as gRPC parses them, not whether a service responds.
func (v *validator) upstreams() {
	for name, upstream := range v.loaded.Upstreams.all() {
		v.target("upstreams."+name+".address", upstream.Address, name)
		v.clientTLS("upstreams."+name+".tls", upstream.TLS)
	}
}

// all returns the upstreams by name.
func (u Upstreams) all() iter.Seq2[string, Upstream] {
	return func(yield func(string, Upstream) bool) {
		value := reflect.ValueOf(u)
		for _, f := range fields(value.Type()) {
			if upstream, ok := reflect.TypeAssert[Upstream](value.FieldByIndex(f.Index)); ok && !yield(f.name, upstream) {
				return
			}
		}
	}
}

func (v *validator) target(key, address, service string) {
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case address == "":
		v.refuse(key, "is required, as the address of the %s service", service)
	case !found:
		v.hostPort(key, strings.TrimPrefix(address, "dns:"))
	case scheme == "dns" || scheme == "passthrough":
		_, target, _ := strings.Cut(rest, "/") // the authority precedes it; for dns it is a name server
		v.hostPort(key, target)
	case scheme == "static" && strings.HasPrefix(rest, "/"):
		v.staticList(key, rest[1:])
	case scheme != "unix" || rest == "":
		v.refuse(key, "must be host:port, dns:///host:port, static:///host:port,host:port, passthrough:///host:port or unix:///path, not %q",
			address)
	}
}

// staticList checks a list of addresses: each is host:port, and none is repeated.
func (v *validator) staticList(key, list string) {
	addresses := strings.Split(list, ",")
	for i, address := range addresses {
		switch {
		case strings.Contains(address, " "):
			v.refuse(key, "must be host:port, not %q", address)
		case slices.Contains(addresses[:i], address):
			v.refuse(key, "contains %s twice", address)
		default:
			v.hostPort(key, address)
		}
	}
}

// clientTLS checks that TLS is enabled if one of its keys is set.
func (v *validator) clientTLS(key string, c ClientTLS) {
	v.pair(key, c.CertFile, c.KeyFile)
	if !c.Enabled && c != (ClientTLS{}) {
		v.refuse(key+".enabled", "is false, and other keys of tls are given: connections would not be encrypted")
	}
}

// routes checks that the operations exist, and that their timeouts fit into http.write_timeout.
func (v *validator) routes() {
	c := v.loaded
	if len(c.Routes) == 0 {
		return // skip parsing the OpenAPI document
	}
	known := operations()
	for _, id := range slices.Sorted(maps.Keys(c.Routes)) {
		key := named(routesKey, id)
		if !slices.Contains(known, id) {
			v.refuse(key, "is not an operation of the API%s", suggestionOf(id, known))
			continue
		}
		if timeout := c.Routes[id].Timeout; c.HTTP.BodyTimeout+timeout >= c.HTTP.WriteTimeout {
			v.refuse(join(key, "timeout"), "is %s, and with http.body_timeout of %s not less than http.write_timeout of %s: "+
				"a late response could not be written", timeout, c.HTTP.BodyTimeout, c.HTTP.WriteTimeout)
		}
	}
}
