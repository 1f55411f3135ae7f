package authn

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
	// silenceLimit is three of the heartbeats that the contract promises: a stream that says nothing for longer is as good
	// as cut, whatever the connection looks like.
	silenceLimit = 30 * time.Second
)

var errSilent = errors.New("no heartbeat within 30 s")

// Run follows the identity service's stream of revocations until the context ends, and then returns nil. A revoked token is
// refused from the moment the stream says so. Where the stream breaks, Run takes it up again where it broke off, at growing
// and jittered intervals; meanwhile a confirmed token is trusted for Settings.UnwatchedFor, and one that was confirmed before
// the stream broke for Settings.FreshFor at most. It is to be called once, on one of those that share what they remember.
func (a *Authenticator) Run(ctx context.Context) error {
	w := watcher{Authenticator: a, delay: reconnectFirst}
	defer a.metrics.streamConnected.Set(0)
	for ctx.Err() == nil {
		err := w.watch(ctx)
		if ctx.Err() != nil {
			break
		}
		w.lost(ctx, err)
		w.pause(ctx)
	}
	return nil
}

// DisconnectedFor returns for how long nobody has told of revocations; 0 while somebody does, or nobody has been asked yet.
func (a *Authenticator) DisconnectedFor() time.Duration {
	since := a.cutSince.Load()
	if since == 0 {
		return 0
	}
	return max(a.now()-time.Duration(since), 1)
}

// A watcher is where Run stands.
type watcher struct {
	*Authenticator
	position  string // of the last message; empty to watch from now
	connected bool   // the stream has said something
	warned    bool   // the log knows that the stream is away
	delay     time.Duration
}

// watch follows one stream to its end, which is always an error.
func (w *watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(silenceLimit, func() { cancel(errSilent) })
	defer silence.Stop()

	fromNow := w.position == ""
	stream, err := w.identity.WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{AfterPosition: w.position})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			if errors.Is(context.Cause(ctx), errSilent) {
				return errSilent
			}
			return err
		}
		silence.Reset(silenceLimit)
		if fromNow {
			// Nobody tells what was revoked before the stream began.
			w.distrust()
			fromNow = false
		}
		if r := message.GetRevocation(); r != nil {
			w.revoke(r)
		}
		w.position = message.GetPosition()
		w.up(ctx)
	}
}

// up notes that the stream is up.
func (w *watcher) up(ctx context.Context) {
	if w.connected {
		return
	}
	w.connected, w.delay = true, reconnectFirst
	w.cutSince.Store(0)
	w.metrics.streamConnected.Set(1)
	if w.warned {
		w.warned = false
		w.logger.InfoContext(ctx, "revocation stream is back")
	}
}

// lost notes that the stream broke, and draws the conclusion where it cannot be taken up where it broke off.
func (w *watcher) lost(ctx context.Context, err error) {
	w.connected = false
	w.cutSince.CompareAndSwap(0, int64(max(w.now(), 1))) // further attempts that fail do not make it later
	w.metrics.streamConnected.Set(0)
	if status.Code(err) == codes.OutOfRange && w.position != "" {
		w.position = ""
		w.distrust()
		w.logger.WarnContext(ctx, "revocations were missed; every token is looked up again")
	}
	if !w.warned {
		w.warned = true
		w.logger.WarnContext(ctx, "revocation stream is away; revocations take effect late", slog.Any("error", err))
	}
}

// pause waits before the next attempt. The jitter keeps the gateways of an installation from coming back all at once.
func (w *watcher) pause(ctx context.Context) {
	timer := time.NewTimer(w.delay/2 + rand.N(w.delay/2))
	defer timer.Stop()
	w.delay = min(2*w.delay, reconnectMost)
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// revoke has the token refused from now on. A token that nothing is known of is left to the identity service.
func (a *Authenticator) revoke(r *identityv1.Revocation) {
	a.metrics.revocations.Inc()
	var k key
	if len(r.GetTokenSha256()) != len(k) {
		a.distrust() // of which token it speaks cannot be told, so it may be of any
		return
	}
	copy(k[:], r.GetTokenSha256())

	a.mu.Lock()
	defer a.mu.Unlock()
	f, underWay := a.flights[k]
	if underWay {
		f.revoked = true
	}
	if _, _, remembered := a.entries.peek(k); remembered || underWay {
		e := a.revokedEntry(k, r.GetTokenId())
		e.epoch = a.epoch.Load()
		a.entries.set(k, e)
	}
}

// distrust has every token looked up again before it is used, by the look-ups under way too. What is known is kept for the
// case that the identity service cannot answer.
func (m *memory) distrust() {
	m.epoch.Add(1)
}
