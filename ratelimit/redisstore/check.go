package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
)

// Check does once what a gateway does with Redis, and reports each result. If an optional one fails, limits are right nevertheless. It
// counts a token and a gateway of its own: their keys begin with the prefix and "check:", are removed at the end, and expire otherwise. ctx
// must have a deadline.
func Check(ctx context.Context, client *Client, prefix string, report func(what string, err error, optional bool)) {
	prefix = fmt.Sprintf("%scheck:%d:", prefix, time.Now().UnixNano())
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	s, errStore := New(Options{Client: client, Prefix: prefix, Logger: logger, Registerer: registry})
	g, errGateways := NewGateways(GatewaysOptions{Client: client, Prefix: prefix, Logger: logger, Registerer: registry})
	pingErr := client.Ping(ctx).Err()
	if redis.HasErrorPrefix(pingErr, "NOPERM") {
		pingErr = nil // the gateway needs no PING
	}
	if err := errors.Join(errStore, errGateways, pingErr); err != nil {
		report("connection", err, false)
		return
	}
	defer g.unregister(ctx)
	_, _, beatErr := g.sendHeartbeat(ctx)
	evictionErr := g.readEviction(ctx)
	if evictionErr == nil && g.evicting.Load() > 0 {
		evictionErr = errors.New("its maxmemory-policy evicts keys, and with them the usage of tokens")
	}
	report("counting requests", nameDenied(ctx, client, prefix, s.check(ctx)), false)
	report("counting gateways", nameDenied(ctx, client, prefix, beatErr), false)
	report("subscription to refunds", s.checkSubscription(ctx), false)
	report("no eviction", evictionErr, true)
}

// scriptCommands returns the commands of the scripts, with arguments that change only the key.
func scriptCommands(key string) [][]any {
	return [][]any{
		{"get", key}, {"set", key, "", "px", 1}, {"time"}, {"publish", key, ""}, {"pexpire", key, 1},
		{"zadd", key, 0, ""}, {"zremrangebyscore", key, 0, 0}, {"zcard", key},
	}
}

// nameDenied adds to the error of a script which of its commands the ACL denies the user: the error of Redis before 7.2 does not have it.
func nameDenied(ctx context.Context, client *Client, prefix string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "can't run this command") {
		return err
	}
	defer func() { _ = client.Del(ctx, prefix+"command").Err() }()
	var denied []string
	for _, command := range scriptCommands(prefix + "command") {
		if failed := client.Do(ctx, command...).Err(); failed != nil && strings.Contains(failed.Error(), "no permissions to run") {
			denied = append(denied, fmt.Sprintf("+%s", command[0]))
		}
	}
	return fmt.Errorf("the user lacks %s: %w", strings.Join(denied, " "), err)
}

// check counts, refunds and resets requests of a token.
func (s *Store) check(ctx context.Context) error {
	const token = "check"
	d, err := s.Decide(ctx, token, s.pingPolicy)
	if err != nil {
		return err
	}
	_, _, mergeErr := s.Exchange(ctx, token, s.pingPolicy, ratelimit.Exchange{Op: ratelimit.OpMerge})
	return errors.Join(mergeErr, s.Refund(ctx, token, d), s.Reset(ctx, token))
}

// checkSubscription subscribes to refunds, and pings as a gateway does.
func (s *Store) checkSubscription(ctx context.Context) error {
	sub := s.client.Subscribe(ctx, s.channel)
	defer func() { _ = sub.Close() }()
	_, err := sub.Receive(ctx)
	if err == nil {
		err = sub.Ping(ctx)
	}
	if err == nil {
		_, err = sub.Receive(ctx)
	}
	return err
}
