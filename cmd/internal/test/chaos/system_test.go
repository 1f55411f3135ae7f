package chaos

import (
	"testing"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// A row is a row of the tables in docs/operate: a load on the gateways of its group, what happens
// in its phases, and what must hold, besides that no request fails.
type row struct {
	name   string
	slow   bool   // not with go test -short
	fresh  bool   // no token has used anything of its limits, and counters are 0
	config string // of the gateways
	load   func() load
	phases []phase
	check  func(r *trial)
}

// run runs the rows one after the other. Each begins with gateways that are ready.
func (s *system) run(t *testing.T, rows ...row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if r.slow {
				skipIfShort(t)
			}
			s.try(t, r)
		})
	}
}

// try runs one row.
func (s *system) try(t *testing.T, r row) {
	t.Helper()
	if r.fresh {
		s.used = ""
	}
	defer func() {
		if t.Failed() {
			s.used = "" // the next row starts all anew
		}
	}()
	s.prepare(t, r.config)
	l := r.load()
	l.gateways = s.gateways
	result := l.through(t, r.phases...)
	noneFailed(t, result.responses)
	r.check(result)
}

// A system is what a group of rows shares: gateways, and a Redis that may be nil.
type system struct {
	*testing.T // of the current row

	group    *testing.T
	gateways []*gateway
	redis    *redistest.Server
	common   string // configuration of the gateways before that of a row
	used     string // configuration of the running gateways; "" if they are to be started
}

// newSystem returns two gateways, which are started by the first row, in front of the shared
// backend.
func newSystem(t *testing.T, redis *redistest.Server, common string) *system {
	t.Helper()
	s := &system{group: t, redis: redis, common: common}
	for range 2 {
		s.gateways = append(s.gateways, newGateway(t, "opsgate", everyService(shared.address), common))
	}
	return s
}

// prepare changes the configuration of the gateways to that of a row. If the row before has ended
// one or failed, all begin again, with an empty Redis.
func (s *system) prepare(t *testing.T, config string) {
	t.Helper()
	s.T = t
	config = s.common + config
	switch {
	case s.used == "" || !all(s.gateways, (*gateway).isRunning):
		s.restart(config)
	case config != s.used:
		s.reload(config)
	}
	s.used = config
	for _, g := range s.gateways {
		g.waitUntilReady(t)
	}
}

// reload applies a configuration to the gateways while they run.
func (s *system) reload(config string) {
	s.Helper()
	const stamp = "opsgate_config_last_reload_success_timestamp_seconds"
	for _, g := range s.gateways {
		before := g.metric(s.T, stamp)
		g.configure(s.T, config)
		g.sighup(s.T)
		testkit.Eventually(s.T, "the configuration is in force", func() bool { return g.metric(s.T, stamp) > before })
	}
}

// restart starts the gateways with a configuration, without usage from before.
func (s *system) restart(config string) {
	s.Helper()
	for _, g := range s.gateways {
		if g.Process != nil {
			g.End(s.T)
		}
		g.configure(s.T, config)
	}
	if s.redis != nil { // a running gateway would upload its accounts to it
		s.redis.Restart()
	}
	for _, g := range s.gateways {
		g.launch(s.group)
	}
}

// sum returns the sum of a series over the gateways.
func (s *system) sum(series string) int {
	s.Helper()
	return sum(s.T, s.gateways, series)
}

// local reports whether no gateway counts in Redis.
func (s *system) local() bool { return s.sum(sharedMode) == 0 }

// counted reports whether all gateways count in Redis.
func (s *system) counted() bool { return s.sum(sharedMode) == len(s.gateways) }
