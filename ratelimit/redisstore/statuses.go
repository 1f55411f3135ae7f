package redisstore

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxStatus is the maximum length of the status of a gateway.
const MaxStatus = 1 << 10

const (
	statusKept    = 10 * time.Minute // how long a gateway without a heartbeat is listed, if it did not unregister
	maxPeers      = 1000             // in Redis; bounds the work of a script
	maxIDLength   = 64
	maxTimeLength = 20 // digits of the timestamp that precedes a status
)

var (
	//go:embed lua/status.lua
	statusLua string
	//go:embed lua/gateways.lua
	gatewaysLua string
)

// A Peer is a gateway with the same Redis and prefix, as Redis has it.
type Peer struct {
	ID     string
	Age    time.Duration // since its last heartbeat, on the clock of Redis; 0 without a status
	Status []byte        // as the gateway reported it, at most MaxStatus bytes; nil if it is counted without a status
	Silent bool          // it has missed three heartbeats, and this gateway has not: so Redis was reachable
}

// ID returns the random id of this gateway.
func (r *Replicas) ID() string { return r.id }

// StatusError returns why the last status was not written; nil if it was, or before the first heartbeat.
func (r *Replicas) StatusError() error { return *r.statusErr.Load() }

// queueStatus adds the write of the status to a pipeline.
func (r *Replicas) queueStatus(ctx context.Context, pipe redis.Pipeliner, status []byte) *redis.Cmd {
	return pipe.Eval(ctx, statusLua, []string{r.peersKey}, r.id, status, statusKept.Milliseconds(), maxPeers, !r.cleaned)
}

// reportStatus records the result of queueStatus. The counting of gateways does not depend on it.
func (r *Replicas) reportStatus(err error) {
	before := *r.statusErr.Swap(&err)
	r.cleaned = r.cleaned || err == nil
	if before == nil && isReply(err) { // a failed call is reported by the heartbeat
		r.logger.Warn("the status of this gateway is not written: other gateways do not show it", slog.Any("error", err))
	}
}

// isReply reports whether Redis returned the error.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Peers reads the gateways, this one included, those with the most recent heartbeat first. It takes at most the timeout of a call.
func (r *Replicas) Peers(ctx context.Context) ([]Peer, error) {
	callCtx, cancel := r.callContext(ctx)
	defer cancel()
	steady := r.beats.Load() > missedHeartbeats // before the call: its answer must be later than these heartbeats
	pipe := r.client.Pipeline()
	counted := pipe.ZRange(callCtx, r.key, -maxPeers, -1)
	stored := pipe.Eval(callCtx, gatewaysLua, []string{r.peersKey}, maxPeers, maxIDLength, maxTimeLength+MaxStatus)
	_, _ = pipe.Exec(callCtx) // each command has its error
	answer, err := stored.Slice()
	if err != nil {
		return nil, fmt.Errorf("redis: read the gateways: %w", err)
	}
	if counted.Err() != nil && !isReply(counted.Err()) {
		return nil, fmt.Errorf("redis: read the gateways: %w", counted.Err())
	}
	silentAfter := missedHeartbeats * r.interval
	peers := parsePeers(answer)
	for i := range peers {
		peers[i].Silent = steady && peers[i].Age > silentAfter
	}
	for _, id := range counted.Val() { // none if the user of Redis may not read them
		if len(id) <= maxIDLength && !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == id }) {
			peers = append(peers, Peer{ID: id})
		}
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.ID, b.ID)) })
	return peers, nil
}

// parsePeers returns the peers in the answer of gateways.lua. It leaves out what is not a status, and what is too old. A timestamp in the
// future means that the clock of Redis was set back.
func parsePeers(answer []any) (peers []Peer) {
	if len(answer) == 0 {
		return nil
	}
	now, _ := answer[0].(int64)
	for i := 1; i+1 < len(answer); i += 2 {
		id, _ := answer[i].(string)
		value, _ := answer[i+1].(string)
		at, status, found := bytes.Cut([]byte(value), []byte(" "))
		beat, err := strconv.ParseInt(string(at), 10, 64)
		age := time.Duration(now-beat) * time.Millisecond
		if !found || err != nil || beat > now+statusKept.Milliseconds() || beat < now-statusKept.Milliseconds() {
			continue
		}
		peers = append(peers, Peer{ID: id, Age: max(0, age), Status: status})
	}
	return peers
}
