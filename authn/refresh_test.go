package authn_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/authn"
)

func TestConcurrentRefreshesAreBounded(t *testing.T) {
	const tokens = 16
	service := newIdentity()
	var elapsed, reads atomic.Int64
	begin := time.Now()
	a := newAuthenticator(t, service, func(o *authn.Options) {
		o.MaxLookups = 1
		o.Clock = func() time.Time {
			reads.Add(1)
			return begin.Add(time.Duration(elapsed.Load()))
		}
	})
	for i := range byte(tokens) {
		accepted(t, a, service.issue(i))
	}
	elapsed.Store(int64(21 * time.Second))
	release := service.hold()
	var clients sync.WaitGroup
	a.WithLock(func() {
		reads.Store(0)
		for i := range byte(tokens) {
			clients.Go(func() { accepted(t, a, mint(i)) })
		}
		for reads.Load() < tokens {
			runtime.Gosched()
		}
		for range 1000 { // until all wait for the lock
			runtime.Gosched()
		}
	})
	clients.Wait()
	release()
	a.Settle()
	service.mustHaveLookups(t, tokens+1)
}
