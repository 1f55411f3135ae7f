package redisclient_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
)

func TestMain(m *testing.M) {
	redisclient.LogTo(slog.New(slog.DiscardHandler))
	testkit.SetDeadProxies() // see TestConnectionsUseNoProxy
	testkit.VerifyTestMain(m)
}

// newClient returns a client with long timeouts, unless o has others: a slow machine must not fail
// the test.
func newClient(t *testing.T, o redisclient.Options) *redisclient.Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout, o.DialTimeout = 5*time.Second, 5*time.Second
	}
	client, err := redisclient.New(o)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newStore(t *testing.T, client *redisclient.Client) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(redisstore.Options{Client: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	testkit.Must(t, err)
	return s
}

// A noCache caches nothing.
type noCache struct{}

func (noCache) DropDenial(string) {}
func (noCache) Drop(string)       {}

// running returns a store that runs until the end of the test.
func running(t *testing.T, client *redisclient.Client) *redisstore.Store {
	t.Helper()
	s := newStore(t, client)
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = s.Run(ctx, noCache{}) })
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	return s
}

func policy(t *testing.T) *ratelimit.Policy {
	t.Helper()
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "second", Requests: 3, Per: time.Second}})
	testkit.Must(t, err)
	return p
}

func TestTopologyFollowsFromTheOptions(t *testing.T) {
	one, many := []string{"127.0.0.1:1"}, []string{"127.0.0.1:1", "127.0.0.1:2"}
	for name, c := range map[string]struct {
		o    redisclient.Options
		want string // of the client's type, or of the error
	}{
		"none":                  {redisclient.Options{}, "no addresses"},
		"one":                   {redisclient.Options{Addresses: one}, "single"},
		"one of a cluster":      {redisclient.Options{Addresses: one, Topology: redisclient.Cluster}, "cluster"},
		"many":                  {redisclient.Options{Addresses: many, Topology: redisclient.Auto}, "cluster"},
		"many single":           {redisclient.Options{Addresses: many, Topology: redisclient.Single}, "one address, not 2"},
		"a master":              {redisclient.Options{Addresses: many, MasterName: "main"}, "single"},
		"sentinels only":        {redisclient.Options{Addresses: one, Topology: redisclient.Sentinel}, "name of the master"},
		"a cluster's database":  {redisclient.Options{Addresses: many, Database: 1}, "no database 1"},
		"something else":        {redisclient.Options{Addresses: one, Topology: "ring"}, `mode "ring"`},
		"a server's database 1": {redisclient.Options{Addresses: one, Database: 1}, "single"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redisclient.New(c.o)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %s", err, c.want)
				}
				return
			}
			defer func() { _ = client.Close() }()
			got := "single"
			if _, is := client.UniversalClient.(*redis.ClusterClient); is {
				got = "cluster"
			}
			if got != c.want {
				t.Errorf("a %s, want %s", got, c.want)
			}
		})
	}
}

// The proxies of the environment are dead (TestMain).
func TestConnectionsUseNoProxy(t *testing.T) {
	encrypted := func(context.Context) *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	for name, o := range map[string]redisclient.Options{
		"single":   {},
		"cluster":  {Topology: redisclient.Cluster},
		"sentinel": {MasterName: "main"},
		"TLS":      {TLS: encrypted},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.Must(t, err)
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			o.Addresses = []string{net.JoinHostPort(testkit.ThisHost, port)}
			client := newClient(t, o)
			var ping sync.WaitGroup
			ping.Go(func() {
				_ = client.Ping(t.Context()) // nothing answers
				_ = listener.Close()
			})
			if conn, err := listener.Accept(); err != nil {
				t.Errorf("no connection to the server: %v", err)
			} else {
				_ = conn.Close()
			}
			ping.Wait()
		})
	}
}
