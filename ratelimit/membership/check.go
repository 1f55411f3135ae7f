package membership

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
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
)

// Check does once what a gateway does with Redis, and reports each result. If an optional one
// fails, limits are right nevertheless. It counts a token and a gateway of its own: their keys
// begin with the prefix and "check:", are removed at the end, and expire otherwise. ctx must have a
// deadline.
func Check(
	ctx context.Context, client *redisclient.Client, prefix string, report func(what string, err error, optional bool),
) {
	prefix = fmt.Sprintf("%scheck:%d:", prefix, time.Now().UnixNano())
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	s, errStore := redisstore.New(redisstore.Options{Client: client, Prefix: prefix, Logger: logger, Registerer: registry})
	g, errGateways := New(Options{Client: client, Prefix: prefix, Logger: logger, Registerer: registry})
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
	report("counting requests", nameDenied(ctx, client, prefix, checkCounting(ctx, s)), false)
	report("counting gateways", nameDenied(ctx, client, prefix, beatErr), false)
	report("subscription to refunds", checkSubscription(ctx, client, prefix+redisstore.Channel), false)
	report("no eviction", evictionErr, true)
}

// scriptCommands returns the commands of the scripts, with arguments that change only the key.
func scriptCommands(key string) [][]any {
	return [][]any{
		{"get", key}, {"set", key, "", "px", 1}, {"time"}, {"publish", key, ""}, {"pexpire", key, 1},
		{"zadd", key, 0, ""}, {"zremrangebyscore", key, 0, 0}, {"zcard", key},
	}
}

// nameDenied adds to the error of a script which of its commands the ACL denies the user: the error
// of Redis before 7.2 does not have it.
func nameDenied(ctx context.Context, client *redisclient.Client, prefix string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "can't run this command") {
		return err
	}
	defer func() { _ = client.Del(ctx, prefix+"command").Err() }()
	var denied []string
	for _, command := range scriptCommands(prefix + "command") {
		if failed := client.Do(ctx, command...).Err(); failed != nil &&
			strings.Contains(failed.Error(), "no permissions to run") {
			denied = append(denied, fmt.Sprintf("+%s", command[0]))
		}
	}
	return fmt.Errorf("the user lacks %s: %w", strings.Join(denied, " "), err)
}

// checkCounting counts, uploads, refunds and resets requests of a token.
func checkCounting(ctx context.Context, s *redisstore.Store) error {
	const token = "check"
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "check", Requests: 1000, Per: time.Minute}})
	if err != nil {
		return err
	}
	d, a, err := s.Exchange(ctx, token, p, ratelimit.Exchange{Op: ratelimit.OpDecide})
	if err != nil {
		return err
	}
	_, _, err = s.Exchange(ctx, token, p, ratelimit.Exchange{Op: ratelimit.OpUpload, Upload: a})
	return errors.Join(err, s.Refund(ctx, token, d), s.Reset(ctx, token))
}

// checkSubscription subscribes to a channel, and pings the subscription as a gateway does.
func checkSubscription(ctx context.Context, client *redisclient.Client, channel string) error {
	sub := client.Subscribe(ctx, channel)
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
