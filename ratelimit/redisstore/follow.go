package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Run listens to which tokens may be admitted sooner than they were told, and forgets refusals that have run out, until ctx ends;
// then it returns nil. While it does not run, and while Redis is away, refusals are believed for no longer than a second.
func (s *Store) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		s.sweep(ctx)
	}()
	again := time.NewTicker(rejoin)
	defer again.Stop()
	told := true
	for ctx.Err() == nil {
		joined, err := s.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if joined || told {
			s.logger.Warn("refunds by other gateways are not heard of: refusals are repeated for a second at most", "error", err)
		}
		told = false
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	<-swept
	return nil
}

func (s *Store) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.refusals.sweep(s.now())
		}
	}
}

// follow listens until ctx ends or the connection does, and says whether there was one.
func (s *Store) follow(ctx context.Context) (joined bool, err error) {
	sub := s.client.Subscribe(ctx, s.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	defer s.follows(false)
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
			return joined, fmt.Errorf("listening to redis: %w", err)
		}
		switch message := message.(type) {
		case *redis.Subscription:
			joined = true
			s.refusals.dropAll() // what became void before is not known
			s.follows(true)
		case *redis.Message:
			s.refusals.drop(message.Payload)
		}
	}
}

func (s *Store) follows(does bool) {
	s.refusals.following.Store(does)
	value := 0.0
	if does {
		value = 1
	}
	s.metrics.following.Set(value)
}
