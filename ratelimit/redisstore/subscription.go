package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/outagelog"
	"opsgate/internal/pulse"
	"opsgate/ratelimit/redisclient"
)

const (
	resubscribeEvery = 500 * time.Millisecond
	pingEvery        = time.Second            // in which there was no message
	pongWithin       = 500 * time.Millisecond // of a ping, or of the request to subscribe

	// lastsAfter is how long a subscription exists before it is reported as working. It is longer
	// than pingEvery: a user without the right to PING loses each subscription at its first ping.
	lastsAfter = 10 * time.Second

	// resetMessage is the prefix of messages about a reset. A message about a refund is the token's
	// id.
	resetMessage = "reset:"
)

// A Cache keeps accounts and denials that the store returned. Its methods must not block.
type Cache interface {
	DropDenial(tokenID string) // after a refund; with "", the denials of all tokens
	Drop(tokenID string)       // after a reset
}

// Subscribed reports whether [Store.Run] is subscribed to refunds and resets.
func (s *Store) Subscribed() bool { return s.subscribed.Load() }

// Run drops from a cache what refunds and resets by any gateway make obsolete, until ctx ends; then
// it returns nil. After each subscription it drops all denials, because earlier messages may have
// been missed. If the subscription ends, Run subscribes again.
func (s *Store) Run(ctx context.Context, c Cache) error {
	r := subscriber{Store: s, cache: c}
	r.log.Logger, r.log.Steady = s.logger, s.lastsAfter
	r.log.Failed = "no subscription to refunds by other gateways: cached denials expire after a second"
	r.log.Recovered = "refunds by other gateways are received again"
	defer s.lasts.Store(false)
	for ctx.Err() == nil {
		if err := r.receive(ctx); ctx.Err() == nil {
			r.lasts.Store(false)
			r.log.Fail(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(resubscribeEvery):
		}
	}
	return nil
}

// A subscriber is the state of Run.
type subscriber struct {
	*Store

	cache Cache
	log   outagelog.Log
}

// receive receives messages until ctx or the connection ends.
func (r *subscriber) receive(ctx context.Context) error {
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
		wait := pulse.Until(pingEvery)
		if pinged || since.IsZero() { // an answer must come
			wait = pongWithin
		}
		message, err := subscription.ReceiveTimeout(ctx, wait)
		if redisclient.TimedOut(err) && !since.IsZero() && !pinged {
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
			r.cache.DropDenial("") // earlier messages may be lost
			r.subscribed.Store(true)
			r.log.Succeed()
		case *redis.Message:
			r.drop(message.Payload)
		}
		if time.Since(since) >= r.lastsAfter {
			r.lasts.Store(true)
		}
	}
}

// drop drops what a message makes obsolete.
func (r *subscriber) drop(message string) {
	if tokenID, reset := strings.CutPrefix(message, resetMessage); reset {
		r.cache.Drop(tokenID)
	} else if message != "" {
		r.cache.DropDenial(message)
	}
}
