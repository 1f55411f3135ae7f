package httpserver

import (
	"log/slog"
	"maps"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/testkit"
)

// passed returns a listener as it arrives from systemd: made of a file.
func passed(t *testing.T, l *net.TCPListener) *net.TCPListener {
	t.Helper()
	file, err := l.File()
	testkit.Must(t, err)
	defer func() { _ = file.Close() }()
	copied, err := net.FileListener(file)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = copied.Close() })
	return copied.(*net.TCPListener)
}

func bound(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

func listenOn(t *testing.T, address string, l *net.TCPListener) (*Server, error) {
	t.Helper()
	return Listen(t.Context(), Options{
		Name: "public", Address: address, Bound: l, Limits: Limits{Connections: 10, Input: 1 << 20, HeaderBytes: 8 << 10},
		Errors: slog.DiscardHandler, Registerer: prometheus.NewRegistry(), MetricPrefix: "test",
	})
}

func TestPassedListenerMustHaveTheConfiguredAddress(t *testing.T) {
	one, every := bound(t, "127.0.0.1:0"), bound(t, ":0")
	port := func(l *net.TCPListener) string { return l.Addr().String()[strings.LastIndex(l.Addr().String(), ":"):] }
	for _, test := range []struct {
		listener   *net.TCPListener
		configured string
		ok         bool
	}{
		{one, "127.0.0.1" + port(one), true},
		{one, "localhost" + port(one), true},
		{one, "127.0.0.1:1", false},
		{one, "127.0.0.2" + port(one), false},
		{one, port(one), false},
		{every, port(every), true},
		{every, "127.0.0.1" + port(every), false},
	} {
		if _, err := listenOn(t, test.configured, passed(t, test.listener)); (err == nil) != test.ok {
			t.Errorf("a socket on %s for %s: got %v", test.listener.Addr(), test.configured, err)
		}
	}
}

// optionsOf returns the options of a connection that a server accepts.
func optionsOf(t *testing.T, address string, l *net.TCPListener) map[string]int {
	t.Helper()
	s, err := listenOn(t, address, l)
	testkit.Must(t, err)
	defer func() { _ = s.Close() }()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
	testkit.Must(t, err)
	defer func() { _ = client.Close() }()
	accepted, err := s.listener.Accept()
	testkit.Must(t, err)
	defer func() { _ = accepted.Close() }()
	return socketOptions(underlying(accepted))
}

func socketOptions(c *connection) map[string]int {
	found := map[string]int{}
	descriptor, err := c.SyscallConn()
	if err != nil {
		return found
	}
	_ = descriptor.Control(func(fd uintptr) {
		for name, option := range map[string][2]int{
			"keepalive":          {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
			"keepalive idle":     {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
			"keepalive interval": {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL},
			"no delay":           {syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
			"write buffer":       {syscall.SOL_SOCKET, syscall.SO_SNDBUF},
		} {
			found[name], _ = syscall.GetsockoptInt(int(fd), option[0], option[1])
		}
	})
	return found
}

func TestConnectionsOfPassedListenersHaveTheSameOptions(t *testing.T) {
	l := bound(t, "127.0.0.1:0")
	own, others := optionsOf(t, "127.0.0.1:0", nil), optionsOf(t, l.Addr().String(), passed(t, l))
	if own["keepalive"] != 1 || own["no delay"] != 1 || own["write buffer"] != 2*128<<10 {
		t.Errorf("got %v", own)
	}
	if !maps.Equal(own, others) {
		t.Errorf("a passed listener has %v, its own %v", others, own)
	}
}
