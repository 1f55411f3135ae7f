package membership

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Of consecutive successful heartbeats, the first of every evictionEvery reads the eviction. INFO
// returns 5 KB, and takes 40 µs of Redis.
const evictionEvery = 15

// Eviction returns the number of servers whose maxmemory-policy evicts keys, and how many keys of
// any program were evicted since the first read. A token whose account is evicted starts at zero.
// Both are 0 until they were read, and stay while they cannot be.
func (g *Gateways) Eviction() (servers, keys int64) { return g.evicting.Load(), g.evictedKeys.Load() }

// readEviction asks the server, or the masters of a cluster that it reaches.
func (g *Gateways) readEviction(ctx context.Context) error {
	callCtx, cancel := g.client.CallContext(ctx)
	defer cancel()
	var mu sync.Mutex // masters are asked concurrently
	evicting := int64(0)
	ask := func(ctx context.Context, server *redis.Client) error {
		info := server.InfoMap(ctx)
		mu.Lock()
		defer mu.Unlock()
		if policy := info.Item("Memory", "maxmemory_policy"); policy != "" && policy != "noeviction" &&
			info.Item("Memory", "maxmemory") != "0" {
			evicting++
		}
		run := info.Item("Server", "run_id") // the number begins again in another process
		if keys, err := strconv.ParseInt(info.Item("Stats", "evicted_keys"), 10, 64); err == nil {
			if before, known := g.evicted[run]; known {
				g.evictedKeys.Add(max(0, keys-before)) // below 0 after CONFIG RESETSTAT
			}
			g.evicted[run] = keys
		}
		return info.Err()
	}
	var err error
	switch c := g.client.UniversalClient.(type) {
	case *redis.Client:
		err = ask(callCtx, c)
	case *redis.ClusterClient:
		err = c.ForEachMaster(callCtx, ask)
	}
	if err != nil { // the number may be too low: a master did not answer
		evicting = max(evicting, g.evicting.Load())
	}
	g.evicting.Store(evicting)
	_, denied := errors.AsType[redis.Error](err)
	if denied && !g.infoDenied { // a failed call is reported by the heartbeat
		g.logger.Warn("whether redis evicts keys is not known: its user may not read INFO", slog.Any("error", err))
	}
	g.infoDenied = denied || g.infoDenied && err != nil
	return err
}
