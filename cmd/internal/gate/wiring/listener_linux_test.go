package wiring_test

import (
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
)

// passed opens a listener as it arrives from systemd: made of a file.
func passed(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	opened, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	tcp, _ := opened.(*net.TCPListener)
	return again(t, tcp)
}

// again returns another descriptor of the listener.
func again(t *testing.T, l *net.TCPListener) *net.TCPListener {
	t.Helper()
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	copied, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = copied.Close() })
	tcp, _ := copied.(*net.TCPListener)
	return tcp
}

func TestPassedListenerMustHaveTheConfiguredAddress(t *testing.T) {
	one, every := passed(t, "127.0.0.1:0"), passed(t, ":0")
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
		c := settings("127.0.0.1:1")
		c.Listen = test.configured
		e, err := wiring.Listen(t.Context(), wiring.Options{
			Loaded: config.Loaded{Config: c}, Logger: slog.New(slog.DiscardHandler), Listener: again(t, test.listener),
		})
		if (err == nil) != test.ok {
			t.Errorf("a socket on %s for %s: got %v", test.listener.Addr(), test.configured, err)
		}
		if err == nil {
			_ = e.Close()
		}
	}
}

// socketOptions returns the options of a connection that a gateway accepts.
func socketOptions(t *testing.T, listener *net.TCPListener) map[string]int {
	t.Helper()
	c := settings("127.0.0.1:1")
	if listener != nil {
		c.Listen = listener.Addr().String()
	}
	options := make(chan map[string]int, 1)
	e, err := wiring.Listen(t.Context(), wiring.Options{
		Loaded: config.Loaded{Config: c}, Logger: slog.New(slog.DiscardHandler), Listener: listener,
		Wrap: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { options <- optionsOf(w) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := runEdge(t, e, "")
	_, _ = r.try(r.Address(), "/") // the connection was taken from the server
	if err := r.end(); err != nil {
		t.Error(err)
	}
	return <-options
}

func optionsOf(w http.ResponseWriter) map[string]int {
	found := map[string]int{}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return found
	}
	defer func() { _ = conn.Close() }()
	raw, is := conn.(syscall.Conn)
	if !is {
		return found
	}
	descriptor, err := raw.SyscallConn()
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
	own, others := socketOptions(t, nil), socketOptions(t, passed(t, "127.0.0.1:0"))
	if own["keepalive"] != 1 || own["no delay"] != 1 || own["write buffer"] != 2*128<<10 {
		t.Errorf("got %v", own)
	}
	if !maps.Equal(own, others) {
		t.Errorf("a passed listener has %v, its own %v", others, own)
	}
}
