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
)

// Subscribed reports whether [Store.Run] is subscribed to refunds and resets, so that Options.OnRefund is called for them.
func (s *Store) Subscribed() bool { return s.subscribed.Load() }

// Run subscribes to the refunds and resets of all gateways and calls Options.OnRefund for each, until ctx ends; then it returns nil.
// If the subscription ends, it subscribes again.
func (s *Store) Run(ctx context.Context) error {
	again := time.NewTicker(resubscribeEvery)
	defer again.Stop()
	warn := true
	for ctx.Err() == nil {
		subscribed, err := s.receive(ctx)
		if ctx.Err() != nil {
			break
		}
		if subscribed || warn {
			s.logger.Warn("no subscription to refunds by other gateways: cached denials are repeated for a second at most", "error", err)
		}
		warn = false
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	return nil
}

// receive receives messages until ctx or the connection ends, and reports whether it was subscribed.
func (s *Store) receive(ctx context.Context) (subscribed bool, err error) {
	sub := s.client.Subscribe(ctx, s.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	defer s.subscribed.Store(false)
	for pinged := false; ; {
		message, err := sub.ReceiveTimeout(ctx, pingAfter)
		var timeout net.Error
		switch {
		case err == nil:
			pinged = false
		case errors.As(err, &timeout) && timeout.Timeout() && subscribed && !pinged:
			if err := sub.Ping(ctx); err != nil {
				return subscribed, fmt.Errorf("ping the subscription: %w", err)
			}
			pinged = true
			continue
		default:
			return subscribed, fmt.Errorf("subscription: %w", err)
		}
		switch message := message.(type) {
		case *redis.Subscription:
			subscribed = true
			s.onRefund("") // earlier messages may be lost
			s.subscribed.Store(true)
		case *redis.Message:
			s.onRefund(message.Payload)
		}
	}
}
