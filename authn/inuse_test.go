package authn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"opsgate/authn"
)

// A request of a token in use never waits, whatever state the service and its stream are in.
func TestATokenInUseDoesNotWait(t *testing.T) {
	never := func(*identity) {}
	for what, service := range map[string]struct {
		falls func(*identity)
		lasts time.Duration
	}{
		"answers": {never, 20 * time.Minute},
		"is slow": {func(i *identity) { i.delay = 1900 * time.Millisecond }, 20 * time.Minute},
		"refuses": {func(i *identity) { i.fail(errUnavailable) }, 9 * time.Minute},
		"hangs":   {func(i *identity) { i.hold() }, 9 * time.Minute},
	} {
		for name, cutAfter := range map[string]time.Duration{
			"up": time.Hour, "cut before": 5 * time.Second, "cut with it": 35 * time.Second, "cut later": time.Minute,
		} {
			for setting, settings := range map[string]authn.Settings{
				"default": {}, "patient": {LookupTimeout: 8 * time.Second, FreshFor: time.Minute},
			} {
				t.Run(what+", stream "+name+", "+setting, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						use(t, usage{settings, service.falls, 35 * time.Second, cutAfter, service.lasts})
					})
				})
			}
		}
	}
}

// A usage uses one token every quarter of a second.
type usage struct {
	settings             authn.Settings
	falls                func(*identity) // changes the service
	fallsAfter, cutAfter time.Duration
	lasts                time.Duration
}

func use(t *testing.T, u usage) {
	t.Helper()
	service := newIdentity()
	a, w := following(t, service, func(o *authn.Options) { o.Settings = u.settings })
	defer a.Settle()
	token := service.issue(1)
	accepted(t, a, token)
	const pace = 250 * time.Millisecond
	for at := time.Duration(0); at < u.lasts; at += pace {
		if at == u.fallsAfter {
			u.falls(service)
		}
		switch {
		case at == u.cutAfter:
			service.cut.Store(true)
			w.fail(errUnavailable)
		case at < u.cutAfter && at%(10*time.Second) == 0:
			w.heartbeat("1")
		}
		before := time.Now()
		accepted(t, a, token)
		if waited := time.Since(before); waited != 0 {
			t.Fatalf("waited %v, at %v", waited, at)
		}
		time.Sleep(pace)
	}
	if n := service.lookups(); n > int(u.lasts/time.Second) {
		t.Errorf("%d lookups in %v: more than one a second", n, u.lasts)
	}
}
