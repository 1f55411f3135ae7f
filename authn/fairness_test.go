package authn_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/authn"
)

// An attack sends invented tokens to a gateway that has just started, over connections from several
// networks. Each connection sends its next request after the response.
type attack struct {
	name        string
	network     func(number int) authn.Source
	networks    int
	perSecond   int
	connections int
}

func attacks() []attack {
	return []attack{
		{"one network with many connections", func(int) authn.Source { return from("203.0.113.7") }, 1, 14_000, 5000},
		{"all of an IPv6 /56", func(n int) authn.Source { return from(fmt.Sprintf("2001:db8:0:%x::1", n)) }, 256, 14_000, 5000},
	}
}

// run sends requests until stop is closed, and returns how many were shed.
func (k attack) run(t *testing.T, a *authn.Authenticator, stop <-chan struct{}) (sent, shed int64) {
	t.Helper()
	var number, refusals atomic.Int64
	pause := time.Second * time.Duration(k.connections) / time.Duration(k.perSecond)
	var connections sync.WaitGroup
	for c := range k.connections {
		connections.Go(func() {
			time.Sleep(pause * time.Duration(c) / time.Duration(k.connections))
			for {
				next := time.Now().Add(pause)
				n := int(number.Add(1))
				if _, err := a.Authenticate(t.Context(), invent(n), k.network(n%k.networks)); errors.Is(err, authn.ErrBusy) {
					refusals.Add(1)
				}
				time.Sleep(time.Until(next)) // not a timer: with the race detector, the runtime of Go 1.26 sometimes crashes when one is received
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	connections.Wait()
	return number.Load(), refusals.Load()
}

// While one network floods a gateway that has just started, at most 1 % of the first requests of
// live tokens from other networks may be shed. The model of the queue proves in which order and how
// many; this is the effect.
func TestInventedTokensOfOneNetworkDoNotBlockOtherNetworks(t *testing.T) {
	for _, attack := range attacks() {
		t.Run(attack.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { underAttack(t, attack) })
		})
	}
}

func underAttack(t *testing.T, attack attack) {
	t.Helper()
	const live = 100
	service := newIdentity()
	service.delay = 200 * time.Millisecond
	a := newAuthenticator(t, service)
	tokens := make([]string, live)
	for i := range tokens {
		tokens[i] = invent(1<<40 + i)
		service.add(tokens[i])
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	var sent, shed int64
	go func() {
		defer close(ended)
		sent, shed = attack.run(t, a, stop)
	}()
	time.Sleep(100 * time.Millisecond)

	var refusals atomic.Int64
	var slowest time.Duration
	var mu sync.Mutex
	var clients sync.WaitGroup
	for i, token := range tokens {
		source := from(fmt.Sprintf("198.51.%d.9", i%20))
		clients.Go(func() {
			begin := time.Now()
			if _, err := a.Authenticate(t.Context(), token, source); err != nil {
				refusals.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(begin))
		})
		time.Sleep(5 * time.Millisecond)
	}
	clients.Wait()
	close(stop)
	<-ended
	t.Logf("%d of %d live tokens refused, the slowest answered after %v; %d invented tokens sent, %d shed; %d lookups",
		refusals.Load(), live, slowest, sent, shed, service.lookups())
	if refusals.Load()*100 > live {
		t.Errorf("%d of %d first requests of live tokens were refused, want at most 1 %%", refusals.Load(), live)
	}
}
