package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// decideConcurrently makes one request of each of many tokens, by 16 clients.
func decideConcurrently(tb testing.TB, s *redisstore.Store, p *ratelimit.Policy, tokens int) {
	tb.Helper()
	const clients = 16
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := c; i < tokens; i += clients {
				if _, err := s.Decide(tb.Context(), fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i), p); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func usedMemory(tb testing.TB, server *redistest.Server) int {
	tb.Helper()
	stats, err := server.Client().Info(tb.Context(), "memory").Result()
	testkit.Must(tb, err)
	var used int
	for line := range strings.Lines(stats) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
	}
	return used
}
