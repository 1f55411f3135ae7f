package shares

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// A Queue is a [Pool] whose users wait for their units. The next one is of the team that holds the
// least, and all that could take units after it wait until it has its own. So a team that holds
// none waits only until enough is free, not for what another team wanted before. It is safe for
// concurrent use.
type Queue struct {
	limit int64

	mu      sync.Mutex
	pool    Pool
	waiting []*waiter // those of a team in the order in which they came
}

type waiter struct {
	team  string
	n     int64
	taken chan struct{} // closed when it has its units
}

// NewQueue returns a queue for a resource with a number of units.
func NewQueue(units int64) *Queue { return &Queue{limit: units} }

// Take takes n units for a team, or half of all if that is less, so that a second team can have as
// many. It waits for them until ctx ends, and then returns its error.
func (q *Queue) Take(ctx context.Context, team string, n int64) error {
	w := q.takeOrWait(team, q.atMostHalf(n))
	if w == nil {
		return nil
	}
	select {
	case <-w.taken:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 { // it got its units meanwhile
		return nil
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.serve() // the others may have waited for this one
	return ctx.Err()
}

// Release releases the units of a Take with the same arguments.
func (q *Queue) Release(team string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pool.Release(team, q.atMostHalf(n))
	q.serve()
}

func (q *Queue) atMostHalf(n int64) int64 { return min(n, max(1, q.limit/2)) }

// takeOrWait returns nil if it took the units.
func (q *Queue) takeOrWait(team string, n int64) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 && q.pool.Take(team, n, q.limit) == Taken {
		return nil
	}
	w := &waiter{team, n, make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.serve()
	return w
}

// serve takes units for those who wait, as long as some are free for the next one. The caller holds
// mu.
func (q *Queue) serve() {
	for next := q.next(); next >= 0; next = q.next() {
		close(q.waiting[next].taken)
		q.waiting = slices.Delete(q.waiting, next, next+1)
	}
}

// next takes the units of the next waiter and returns its index, or -1 if they are not free. It
// passes over teams that have reached their share.
func (q *Queue) next() int {
	slices.SortStableFunc(q.waiting,
		func(a, b *waiter) int { return cmp.Compare(q.pool.byTeam[a.team], q.pool.byTeam[b.team]) })
	for i, w := range q.waiting {
		switch q.pool.Take(w.team, w.n, q.limit) {
		case Taken:
			return i
		case Exhausted:
			return -1
		case ShareReached:
		}
	}
	return -1
}
