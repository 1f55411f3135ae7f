package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	resubscribeEvery = 250 * time.Millisecond
	pingAfter        = 500 * time.Millisecond // without a message

	// defaultSteadyAfter is longer than a subscription that Redis ends at its first ping, because its user may not execute PING.
	defaultSteadyAfter = 10 * time.Second
)

// Subscribed reports whether [Store.Run] is subscribed to refunds and resets, so that it calls onRefund for them.
func (s *Store) Subscribed() bool { return s.subscribed.Load() }

// Run subscribes to the refunds and resets of all gateways until ctx ends; then it returns nil. It calls onRefund with each token, and with
// "" after each subscription, because earlier refunds may have been missed. onRefund must not block. If the subscription ends, Run
// subscribes again. It logs the first interruption, and the recovery once a subscription has lasted for
// Options.SteadyAfter; interruptions between the two are counted.
func (s *Store) Run(ctx context.Context, onRefund func(tokenID string)) error {
	f := follower{Store: s, onRefund: onRefund}
	defer s.steady.Store(false)
	again := time.NewTicker(resubscribeEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		err := f.receive(ctx)
		if ctx.Err() != nil {
			break
		}
		f.interrupted(err)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	return nil
}

// A follower is the state of Run.
type follower struct {
	*Store

	onRefund      func(tokenID string)
	interruptions int // since the one that was logged, which is included; 0 if the last line reports a working subscription
}

// interrupted records the end of a subscription, or a failed attempt to subscribe.
func (f *follower) interrupted(err error) {
	f.steady.Store(false)
	if f.interruptions++; f.interruptions == 1 {
		f.logger.Warn("no subscription to refunds by other gateways: cached denials expire after a second", "error", err)
	}
}

// lasted records that a subscription has lasted for a time.
func (f *follower) lasted(d time.Duration) {
	if d < f.steadyAfter || f.steady.Swap(true) || f.interruptions == 0 {
		return
	}
	f.logger.Info("refunds by other gateways are received again", "interruptions", f.interruptions)
	f.interruptions = 0
}

// receive receives messages until ctx or the connection ends.
func (f *follower) receive(ctx context.Context) error {
	sub := f.client.Subscribe(ctx, f.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	defer f.subscribed.Store(false)
	var since time.Time // of the subscription; zero for none
	for pinged := false; ; {
		message, err := sub.ReceiveTimeout(ctx, pingAfter)
		var timeout net.Error
		switch {
		case err == nil:
			pinged = false
		case errors.As(err, &timeout) && timeout.Timeout() && !since.IsZero() && !pinged:
			if err := sub.Ping(ctx); err != nil {
				return fmt.Errorf("ping the subscription: %w", err)
			}
			pinged = true
			continue
		default:
			return fmt.Errorf("subscription: %w", err)
		}
		switch message := message.(type) {
		case *redis.Subscription:
			since = time.Now()
			f.onRefund("") // earlier messages may be lost
			f.subscribed.Store(true)
		case *redis.Message:
			f.onRefund(message.Payload)
		}
		f.lasted(time.Since(since))
	}
}
