package tracing

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// serverAt returns the server attributes of an address host:port.
func serverAt(address string) []attribute.KeyValue {
	host, port, ok := split(address)
	if !ok {
		return []attribute.KeyValue{semconv.ServerAddress(host)}
	}
	return []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(port)}
}

// peerAt returns the network peer attributes of the process that responded.
func peerAt(address string) []attribute.KeyValue {
	host, port, ok := split(address)
	if !ok {
		return []attribute.KeyValue{semconv.NetworkPeerAddress(host)}
	}
	return []attribute.KeyValue{semconv.NetworkPeerAddress(host), semconv.NetworkPeerPort(port)}
}

// split splits an address. One without a port, for example the path of a socket, is returned as the host.
func split(address string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0, false
	}
	port, err = strconv.Atoi(text)
	return host, port, err == nil
}

// targetAddress returns the address in a gRPC target like dns:///fleet.internal:9000 or unix:///run/fleet.sock.
func targetAddress(target string) string {
	scheme, rest, found := strings.Cut(target, "://")
	switch {
	case !found:
		return strings.TrimPrefix(target, "dns:")
	case scheme == "unix":
		return rest
	}
	_, address, _ := strings.Cut(rest, "/") // after the authority
	return address
}
