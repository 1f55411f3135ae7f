package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxStatus is the maximum length of the status of a gateway.
const MaxStatus = 1 << 10

const (
	statusKept    = 10 * time.Minute // how long a gateway without a heartbeat is listed, if it did not unregister
	maxStatuses   = 1000             // in Redis; bounds the work of a script
	maxIDLength   = 64
	maxTimeLength = 20 // digits of the timestamp that precedes a status
)

var (
	//go:embed lua/write_status.lua
	writeStatusLua string
	//go:embed lua/read_statuses.lua
	readStatusesLua string
)

// A Gateway is a gateway with the same Redis and prefix, as Redis has it.
type Gateway struct {
	ID     string
	Age    time.Duration // since its last heartbeat, on the clock of Redis; 0 without a status
	Status []byte        // as the gateway reported it, at most MaxStatus bytes; nil if it is counted without a status
	Silent bool          // it has missed three heartbeats, and this gateway has not: so Redis was reachable
}

// ID returns the random id of this gateway.
func (g *Gateways) ID() string { return g.id }

// StatusError returns why the last status was not written; nil if it was, or before the first heartbeat.
func (g *Gateways) StatusError() error { return *g.statusErr.Load() }

// queueStatus adds the write of the status to a pipeline.
func (g *Gateways) queueStatus(ctx context.Context, pipe redis.Pipeliner, status []byte) *redis.Cmd {
	return pipe.Eval(ctx, writeStatusLua, []string{g.statusesKey}, g.id, status, maxStatuses)
}

// reportStatus records the result of queueStatus. The counting of gateways does not depend on it.
func (g *Gateways) reportStatus(err error) {
	before := *g.statusErr.Swap(&err)
	if before == nil && isReply(err) { // a failed call is reported by the heartbeat
		g.logger.Warn("the status of this gateway is not written: other gateways do not show it", slog.Any("error", err))
	}
}

// isReply reports whether Redis returned the error.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// List reads the gateways, this one included: first those without a status, then those with the most recent heartbeat. It takes at most
// the timeout of a call.
func (g *Gateways) List(ctx context.Context) ([]Gateway, error) {
	callCtx, cancel := g.client.callContext(ctx)
	defer cancel()
	// If this gateway reached Redis in the last three intervals, a gateway without a heartbeat in them is silent. beats is read before the
	// call, so that the answer is newer.
	steady := g.beats.Load() > missedHeartbeats
	pipe := g.client.Pipeline()
	counted := pipe.ZRange(callCtx, g.heartbeatsKey, -maxStatuses, -1)
	stored := pipe.Eval(callCtx, readStatusesLua, []string{g.statusesKey}, maxStatuses, maxIDLength, maxTimeLength+MaxStatus,
		statusKept.Milliseconds())
	_, _ = pipe.Exec(callCtx) // each command has its error
	answer, err := stored.Slice()
	if err != nil {
		return nil, fmt.Errorf("redis: read the gateways: %w", err)
	}
	if counted.Err() != nil && !isReply(counted.Err()) {
		return nil, fmt.Errorf("redis: read the gateways: %w", counted.Err())
	}
	list := parseStatuses(answer)
	for i := range list {
		list[i].Silent = steady && list[i].Age > missedHeartbeats*g.interval
	}
	for _, id := range counted.Val() { // none if the user of Redis may not read them
		if len(id) <= maxIDLength && !slices.ContainsFunc(list, func(g Gateway) bool { return g.ID == id }) {
			list = append(list, Gateway{ID: id})
		}
	}
	slices.SortFunc(list, func(a, b Gateway) int { return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// parseStatuses returns the gateways in the answer of read_statuses.lua.
func parseStatuses(answer []any) (list []Gateway) {
	if len(answer) == 0 {
		return nil
	}
	now, _ := answer[0].(int64)
	for i := 1; i+1 < len(answer); i += 2 {
		id, _ := answer[i].(string)
		value, _ := answer[i+1].(string)
		at, status, _ := strings.Cut(value, " ")
		beat, err := strconv.ParseInt(at, 10, 64)
		if age := time.Duration(now-beat) * time.Millisecond; err == nil {
			list = append(list, Gateway{ID: id, Age: max(0, age), Status: []byte(status)})
		}
	}
	return list
}
