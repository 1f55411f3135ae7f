package accesslog

import (
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// A Log is the requests of each token. It takes 16 bytes of memory a request.
type Log struct {
	Summary

	tokens []*token // by id
}

// A token is the requests of a token, by time.
type token struct {
	id, team string
	class    string // that identity named last; "" for none
	requests []request
}

// A request is a request whose limits were decided.
type request struct {
	at               int64  // µs since 1970
	took             uint32 // µs until the answer
	denied, refunded bool
}

// Read reads the logs at the paths, which may be compressed with gzip; "-" is in.
func Read(paths []string, in io.Reader) (*Log, error) {
	log, tokens := new(Log), make(map[string]*token)
	summary, err := read(paths, in, func(e *entry) {
		t := tokens[e.TokenID]
		if t == nil {
			t = &token{id: e.TokenID}
			tokens[e.TokenID] = t
			log.tokens = append(log.tokens, t)
		}
		t.team, t.class = e.TeamID, e.LimitClass
		took := uint32(min(e.Latency, math.MaxUint32))
		t.requests = append(t.requests, request{e.at().UnixMicro(), took, e.deniedBy() != "", e.Refunded})
	})
	log.Summary = summary
	for _, t := range log.tokens {
		slices.SortStableFunc(t.requests, func(x, y request) int { return cmp.Compare(x.at, y.at) })
	}
	slices.SortFunc(log.tokens, func(x, y *token) int { return cmp.Compare(x.id, y.id) })
	return log, err
}

// longest returns the length of the longest limit of a configuration.
func longest(loaded config.Loaded) (per time.Duration) {
	for _, a := range loaded.RateLimit.Assignments() {
		for _, l := range a.Limits {
			per = max(per, time.Duration(l.Per))
		}
	}
	return per
}

// A simulation decides the requests of one token after the other, with a memory store.
type simulation struct {
	store   *ratelimit.Memory
	now     time.Time // of the store
	refunds []refund  // that are still to come, by time
}

// A refund is that of a request, after its answer.
type refund struct {
	at int64 // µs since 1970
	of ratelimit.Decision
}

func newSimulation() *simulation {
	s := &simulation{now: time.UnixMicro(1 << 50)} // within the longest time.Duration of all times
	s.store = ratelimit.NewMemory(func() time.Time { return s.now })
	return s
}

// run decides the requests of a token by a policy, and calls decided with each decision. A memory
// store never fails, and does not use the context.
func (s *simulation) run(t *token, policy *ratelimit.Policy, decided func(*request, *ratelimit.Decision)) {
	ctx := context.Background()
	s.refunds = s.refunds[:0]
	for i := range t.requests {
		r := &t.requests[i]
		for len(s.refunds) > 0 && s.refunds[0].at <= r.at {
			s.now = time.UnixMicro(s.refunds[0].at)
			_ = s.store.Refund(ctx, t.id, s.refunds[0].of)
			s.refunds = s.refunds[1:]
		}
		s.now = time.UnixMicro(r.at)
		d, _ := s.store.Decide(ctx, t.id, policy)
		if d.Allowed && r.refunded {
			answered := r.at + int64(r.took)
			place, _ := slices.BinarySearchFunc(s.refunds, answered,
				func(f refund, at int64) int { return cmp.Compare(f.at, at) })
			s.refunds = slices.Insert(s.refunds, place, refund{answered, d})
		}
		decided(r, &d)
	}
	_ = s.store.Reset(ctx, t.id) // to free its account
}
