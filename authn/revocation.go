package authn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	firstReconnectDelay = 100 * time.Millisecond
	maxReconnectDelay   = 5 * time.Second
	// heartbeatTimeout is three heartbeat intervals of the contract. A stream without messages for
	// longer counts as disconnected.
	heartbeatTimeout = 30 * time.Second
)

var errHeartbeatTimeout = errors.New("no heartbeat within 30 s")

// Run follows the identity service's revocation stream until the context ends, and then returns
// nil. A revoked token is refused as soon as the stream reports it. When the stream is
// disconnected, Run reconnects with backoff and jitter and resumes at the last position. Meanwhile,
// a token is accepted for a third of Settings.FreshFor after its confirmation, or for FreshFor if
// it was confirmed before the disconnect. Run must be called once.
func (a *Authenticator) Run(ctx context.Context) error {
	w := watcher{Authenticator: a, delay: firstReconnectDelay}
	defer a.metrics.streamConnected.Set(0)
	for ctx.Err() == nil {
		err := w.watch(ctx)
		if ctx.Err() != nil {
			break
		}
		w.disconnected(ctx, err)
		w.backOff(ctx)
	}
	return nil
}

// DisconnectedFor returns how long the revocation stream has been disconnected; 0 while it is
// connected or before the first attempt has failed.
func (a *Authenticator) DisconnectedFor() time.Duration {
	at := a.disconnectedAt.Load()
	if at == 0 {
		return 0
	}
	return max(a.now()-time.Duration(at), 1)
}

// A watcher is the state of Run.
type watcher struct {
	*Authenticator

	position  string // of the last message; empty to watch from now
	connected bool   // a message has arrived
	delay     time.Duration
}

// watch follows one stream to its end, and returns its error.
func (w *watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(heartbeatTimeout, func() { cancel(errHeartbeatTimeout) })
	defer timer.Stop()

	fromNow := w.position == ""
	stream, err := w.identity.WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{AfterPosition: w.position})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			if errors.Is(context.Cause(ctx), errHeartbeatTimeout) {
				return errHeartbeatTimeout
			}
			return err
		}
		timer.Reset(heartbeatTimeout)
		if fromNow {
			w.invalidateAll() // revocations before the start of the stream are not reported
			fromNow = false
		}
		if r := message.GetRevocation(); r != nil {
			w.revoke(r)
		}
		w.position = message.GetPosition()
		w.received()
	}
}

// received records that a message has arrived: the stream is connected.
func (w *watcher) received() {
	if w.connected {
		return
	}
	w.connected, w.delay = true, firstReconnectDelay
	w.disconnectedAt.Store(0)
	w.metrics.streamConnected.Set(1)
	w.logs.stream.Succeed()
}

// disconnected records that the stream has ended. It invalidates the cache if the stream cannot
// resume at the last position.
func (w *watcher) disconnected(ctx context.Context, err error) {
	w.connected = false
	w.disconnectedAt.CompareAndSwap(0, int64(max(w.now(), 1))) // later failed attempts do not change it; 0 means connected
	w.metrics.streamConnected.Set(0)
	if status.Code(err) == codes.OutOfRange && w.position != "" {
		w.position = ""
		w.invalidateAll()
		w.logger.WarnContext(ctx, "revocations were missed; every token is looked up again")
	}
	w.logs.stream.Fail(err)
}

// backOff waits before the next attempt. The jitter keeps gateways from reconnecting at the same
// time.
func (w *watcher) backOff(ctx context.Context) {
	delay := w.delay/2 + rand.N(w.delay/2)
	w.delay = min(2*w.delay, maxReconnectDelay)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

// revoke refuses the token from now on. A token that is neither cached nor being looked up is not
// stored: its next lookup returns that it is revoked.
func (a *Authenticator) revoke(r *identityv1.Revocation) {
	a.metrics.revocations.Inc()
	var k key
	if len(r.GetTokenSha256()) != len(k) {
		a.invalidateAll() // it is unknown which token was revoked
		return
	}
	copy(k[:], r.GetTokenSha256())

	a.mu.Lock()
	defer a.mu.Unlock()
	f, inFlight := a.flights[k]
	if _, _, cached := a.entries.peek(k); cached || inFlight {
		e := a.revokedEntry(a.settings.Load(), k, r.GetTokenId())
		e.epoch = a.epoch.Load()
		a.entries.set(k, e)
		f.supersede(e)
	}
}

// invalidateAll invalidates all entries and all lookups in flight. The entries are kept for outages
// of the identity service.
func (a *Authenticator) invalidateAll() {
	a.epoch.Add(1)
}
