package heavyhitters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit/heavyhitters"
)

func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)
	}
	return list
}

func TestSketchCountsFewTokensExactly(t *testing.T) {
	s := heavyhitters.New()
	for i := range 10 {
		s.Add(heavyhitters.Token{TokenID: "frequent", TeamID: "harbour"}, i%2 == 0)
	}
	s.Add(heavyhitters.Token{TokenID: "rare", TeamID: "lighthouse"}, false)
	want := []heavyhitters.Entry{
		{Token: heavyhitters.Token{TokenID: "frequent", TeamID: "harbour"}, Requests: 10, Denied: 5}, {Token: heavyhitters.Token{TokenID: "rare", TeamID: "lighthouse"}, Requests: 1},
	}
	for n, want := range [][]heavyhitters.Entry{want[:0], want[:1], want, want} {
		if got := s.Top(n); !slices.Equal(got, want) {
			t.Errorf("top %d: got %+v", n, got)
		}
	}
}

// Twenty tokens with many requests are the top of 100,000 tokens with one each.
func TestTopListsFrequentTokensAmongMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := heavyhitters.New()
	const frequent, each = 20, 5000
	exact := make(map[string]float64)
	all := ids(100_000)
	for _, i := range random.Perm(len(all) + frequent*each) {
		if i >= len(all) {
			i %= frequent
		}
		s.Add(heavyhitters.Token{TokenID: all[i], TeamID: "team"}, false)
		exact[all[i]]++
	}
	for _, e := range s.Top(frequent) {
		if n := exact[e.TokenID]; n < each || e.Requests < n || e.Requests-e.Error > n {
			t.Errorf("got %+v, with %v requests", e, n)
		}
	}
}

func TestCountsHalveEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := heavyhitters.New()
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		for range 8 {
			s.Add(heavyhitters.Token{TokenID: "t", TeamID: "team"}, true)
		}
		for _, want := range []float64{8, 4, 2, 1, 0.5} {
			synctest.Wait()
			if top := s.Top(1); len(top) != 1 || top[0].Requests != want || top[0].Denied != want {
				t.Errorf("got %+v, want %v", top, want)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if top := s.Top(1); len(top) != 0 {
			t.Errorf("still listed: %+v", top)
		}
		stop()
		running.Wait()
	})
}

func TestConcurrentAdds(t *testing.T) {
	s := heavyhitters.New()
	all := ids(64)
	var counting sync.WaitGroup
	for range 8 {
		counting.Go(func() {
			for i := range 64_000 {
				s.Add(heavyhitters.Token{TokenID: all[i%64], TeamID: "team"}, false)
				if i%16_000 == 0 {
					s.Top(5)
				}
			}
		})
	}
	counting.Wait()
	for _, e := range s.Top(64) {
		if e.Requests != 8000 || e.Error != 0 {
			t.Errorf("got %+v", e)
		}
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	s := heavyhitters.New()
	all := ids(10_000) // more than counters
	next := 0
	count := func() {
		for range 1000 {
			s.Add(heavyhitters.Token{TokenID: all[next*7919%len(all)], TeamID: "team"}, false)
			next++
		}
	}
	count()
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations for a thousand requests", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	all := ids(100_000)
	for name, tokens := range map[string]int{"one token": 1, "as many tokens as counters": 4096, "many more tokens": 100_000} {
		b.Run(name, func(b *testing.B) {
			s := heavyhitters.New()
			for i := range 2 * tokens {
				s.Add(heavyhitters.Token{TokenID: all[i*7919%tokens], TeamID: "team"}, false)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Add(heavyhitters.Token{TokenID: all[i*7919%tokens], TeamID: "team"}, false)
				i++
			}
		})
	}
}

func BenchmarkAddParallel(b *testing.B) {
	all := ids(4096)
	s := heavyhitters.New()
	b.SetParallelism(4)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(all)); pb.Next(); i += 7919 {
			s.Add(heavyhitters.Token{TokenID: all[i%len(all)], TeamID: "team"}, i%16 == 0)
		}
	})
}
