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
	rejoin  = time.Second / 4        // between attempts to subscribe
	silence = 500 * time.Millisecond // after which the subscription is pinged
)

// Subscribed reports whether [Store.Run] is subscribed to refunds and resets, so that Options.OnRefund is called for them.
func (s *Store) Subscribed() bool { return s.subscribed.Load() }

// Run subscribes to the refunds and resets of all gateways and calls Options.OnRefund for each, until ctx ends; then it returns nil.
// It subscribes again where the subscription ends.
func (s *Store) Run(ctx context.Context) error {
	again := time.NewTicker(rejoin)
	defer again.Stop()
	warn := true
	for ctx.Err() == nil {
		joined, err := s.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if joined || warn {
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

// follow listens until ctx ends or the connection does, and reports whether it was subscribed.
func (s *Store) follow(ctx context.Context) (joined bool, err error) {
	sub := s.client.Subscribe(ctx, s.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	defer s.subscribed.Store(false)
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(ctx, silence)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
		case errors.As(err, &timeout) && timeout.Timeout() && joined && !asked:
			if err := sub.Ping(ctx); err != nil {
				return joined, fmt.Errorf("pinging the subscription: %w", err)
			}
			asked = true
			continue
		default:
			return joined, fmt.Errorf("subscription: %w", err)
		}
		switch message := message.(type) {
		case *redis.Subscription:
			joined = true
			s.onRefund("") // what was published before is not known
			s.subscribed.Store(true)
		case *redis.Message:
			s.onRefund(message.Payload)
		}
	}
}
