package shares_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/internal/shares"
)

// A queue is a Queue in a test, and who has taken its units.
type queue struct {
	*shares.Queue
	t *testing.T

	mu    sync.Mutex
	taken []string // names of those that have got their units since the last check
}

// take takes units in the background.
func (q *queue) take(name, team string, n int64) { q.takeUntil(q.t.Context(), name, team, n) }

func (q *queue) takeUntil(ctx context.Context, name, team string, n int64) {
	go func() {
		err := q.Take(ctx, team, n)
		q.mu.Lock()
		defer q.mu.Unlock()
		if err == nil {
			q.taken = append(q.taken, name)
		} else if !errors.Is(err, ctx.Err()) {
			q.t.Errorf("%s: %v", name, err)
		}
	}()
	synctest.Wait()
}

func (q *queue) release(team string, n int64) {
	q.Release(team, n)
	synctest.Wait()
}

// mustHave checks who has taken units since the last check.
func (q *queue) mustHave(names ...string) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	slices.Sort(q.taken) // they run at the same time
	if !slices.Equal(q.taken, names) {
		q.t.Errorf("%q have taken units, want %q", q.taken, names)
	}
	q.taken = nil
}

func inBubble(t *testing.T, units int64, test func(q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&queue{Queue: shares.NewQueue(units), t: t}) })
}

func TestTeamDoesNotWaitForThoseBeforeItOfAnotherTeam(t *testing.T) {
	inBubble(t, 4, func(q *queue) {
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			q.take(name, "a", 1)
		}
		q.mustHave("a1", "a2")
		q.take("b1", "b", 1)
		q.mustHave("b1")
		q.take("b2", "b", 1)
		q.take("c1", "c", 1)
		q.mustHave("c1")
		q.release("a", 1)
		q.mustHave() // each has one of four units, and one is free
		q.take("d1", "d", 1)
		q.mustHave("d1")
		q.release("b", 1)
		q.mustHave("b2")
		q.release("a", 1)
		q.mustHave("a3")
	})
}

// A caller that wants more than is free gets it, although other callers want less.
func TestMuchIsNotOvertakenByLittle(t *testing.T) {
	inBubble(t, 10, func(q *queue) {
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
			q.take(name, "a", 2)
		}
		q.mustHave("a1", "a2", "a3")
		q.take("b1", "b", 5)
		q.take("c1", "c", 1)
		q.mustHave()
		q.release("a", 2)
		q.mustHave("b1", "c1")
		q.release("a", 2)
		q.mustHave()
		q.release("b", 5)
		q.mustHave("a4")
	})
}

func TestOneCallerTakesAtMostHalf(t *testing.T) {
	inBubble(t, 10, func(q *queue) {
		q.take("a1", "a", 1000)
		q.take("b1", "b", 1000)
		q.mustHave("a1", "b1")
		q.take("c1", "c", 1)
		q.mustHave()
		q.release("a", 1000)
		q.mustHave("c1")
	})
}

func TestCallerWaitsUntilItsContextEnds(t *testing.T) {
	inBubble(t, 10, func(q *queue) {
		q.take("a1", "a", 4)
		q.take("b1", "b", 3)
		ctx, cancel := context.WithTimeout(q.t.Context(), time.Second)
		defer cancel()
		q.takeUntil(ctx, "c1", "c", 5)
		q.take("d1", "d", 3)
		q.mustHave("a1", "b1")
		time.Sleep(time.Second)
		synctest.Wait()
		q.mustHave("d1")
	})
}

// A caller takes units at a time, and keeps them for a time.
type caller struct {
	team      string
	n         int64
	at, lasts int
}

// Whatever callers want, and however long they keep it, all get their units, and never more than
// there are.
func TestAllGetTheirUnits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(1, 20).Draw(rt, "units")
		callers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) caller {
			return caller{
				team: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "team"), n: rapid.Int64Range(1, 25).Draw(rt, "n"),
				at: rapid.IntRange(0, 50).Draw(rt, "at"), lasts: rapid.IntRange(0, 50).Draw(rt, "lasts"),
			}
		}), 1, 30).Draw(rt, "callers")
		synctest.Test(t, func(t *testing.T) {
			q := shares.NewQueue(limit)
			var mu sync.Mutex
			var inUse, most int64
			use := func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				inUse += n
				most = max(most, inUse)
			}
			for _, c := range callers {
				go func() {
					time.Sleep(time.Duration(c.at))
					if err := q.Take(t.Context(), c.team, c.n); err != nil {
						t.Errorf("%+v: %v", c, err)
					}
					taken := min(c.n, max(1, limit/2))
					use(taken)
					time.Sleep(time.Duration(c.lasts))
					use(-taken)
					q.Release(c.team, c.n)
				}()
			}
			time.Sleep(time.Duration(100 * len(callers)))
			synctest.Wait()
			if most > limit || inUse != 0 {
				t.Errorf("%d of %d units were taken at once, and %d still are", most, limit, inUse)
			}
		})
		if t.Failed() {
			rt.Fatalf("%d units, %+v", limit, callers)
		}
	})
}
