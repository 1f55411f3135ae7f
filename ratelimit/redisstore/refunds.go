package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/outagelog"
)

const (
	resubscribeEvery = 250 * time.Millisecond
	pingAfter        = 500 * time.Millisecond // without a message

	// steadyAfter is how long a subscription lasts before it is reported as working. It is longer than pingAfter: a user without the right to
	// PING loses each subscription at its first ping.
	steadyAfter = 10 * time.Second
)

// Subscribed reports whether [Store.Run] is subscribed to refunds and resets, so that it calls onRefund for them.
func (s *Store) Subscribed() bool { return s.subscribed.Load() }

// Run subscribes to the refunds and resets of all gateways until ctx ends; then it returns nil. It calls onRefund with each token, and with
// "" after each subscription, because earlier refunds may have been missed. onRefund must not block. If the subscription ends, Run
// subscribes again.
func (s *Store) Run(ctx context.Context, onRefund func(tokenID string)) error {
	r := refundReceiver{Store: s, onRefund: onRefund}
	r.log.Logger, r.log.Steady = s.logger, s.steadyAfter
	r.log.Failed = "no subscription to refunds by other gateways: cached denials expire after a second"
	r.log.Recovered = "refunds by other gateways are received again"
	defer s.steady.Store(false)
	again := time.NewTicker(resubscribeEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		err := r.receive(ctx)
		if ctx.Err() != nil {
			break
		}
		r.steady.Store(false)
		r.log.Fail(err)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	return nil
}

// A refundReceiver is the state of Run.
type refundReceiver struct {
	*Store

	onRefund func(tokenID string)
	log      outagelog.Log
}

// receive receives messages until ctx or the connection ends.
func (r *refundReceiver) receive(ctx context.Context) error {
	subscription := r.client.Subscribe(ctx, r.channel)
	stop := context.AfterFunc(ctx, func() { _ = subscription.Close() })
	defer func() {
		if stop() {
			_ = subscription.Close()
		}
	}()
	defer r.subscribed.Store(false)
	var since time.Time // of the subscription; zero for none
	for pinged := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, pingAfter)
		if timedOut(err) && !since.IsZero() && !pinged {
			if err := subscription.Ping(ctx); err != nil {
				return fmt.Errorf("ping the subscription: %w", err)
			}
			pinged = true
			continue
		}
		if err != nil {
			return fmt.Errorf("subscription: %w", err)
		}
		pinged = false
		switch message := message.(type) {
		case *redis.Subscription:
			since = time.Now()
			r.onRefund("") // earlier messages may be lost
			r.subscribed.Store(true)
			r.log.Succeed()
		case *redis.Message:
			r.onRefund(message.Payload)
		}
		if time.Since(since) >= r.steadyAfter {
			r.steady.Store(true)
		}
	}
}
