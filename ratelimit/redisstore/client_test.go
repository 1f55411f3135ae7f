package redisstore_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore"
)

func TestTopologyFollowsFromTheOptions(t *testing.T) {
	one, many := []string{"127.0.0.1:1"}, []string{"127.0.0.1:1", "127.0.0.1:2"}
	for name, c := range map[string]struct {
		o    redisstore.ClientOptions
		want string // of the client's type, or of the error
	}{
		"none":                  {redisstore.ClientOptions{}, "no addresses"},
		"one":                   {redisstore.ClientOptions{Addresses: one}, "single"},
		"one of a cluster":      {redisstore.ClientOptions{Addresses: one, Topology: redisstore.Cluster}, "cluster"},
		"many":                  {redisstore.ClientOptions{Addresses: many, Topology: redisstore.Auto}, "cluster"},
		"many single":           {redisstore.ClientOptions{Addresses: many, Topology: redisstore.Single}, "one address, not 2"},
		"a master":              {redisstore.ClientOptions{Addresses: many, MasterName: "main"}, "single"},
		"sentinels only":        {redisstore.ClientOptions{Addresses: one, Topology: redisstore.Sentinel}, "name of the master"},
		"a cluster's database":  {redisstore.ClientOptions{Addresses: many, Database: 1}, "no database 1"},
		"something else":        {redisstore.ClientOptions{Addresses: one, Topology: "ring"}, `mode "ring"`},
		"a server's database 1": {redisstore.ClientOptions{Addresses: one, Database: 1}, "single"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redisstore.NewClient(c.o)
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
	for name, o := range map[string]redisstore.ClientOptions{
		"single":   {},
		"cluster":  {Topology: redisstore.Cluster},
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
