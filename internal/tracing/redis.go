package tracing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// RedisHook returns a hook that records a span for each Redis command of a recorded request, or nil
// for a nil Provider. The addresses are those of the servers.
func (p *Provider) RedisHook(addresses []string) redis.Hook {
	if p == nil {
		return nil
	}
	h := redisHook{tracer: p.tracer, common: []attribute.KeyValue{semconv.DBSystemNameRedis}}
	if len(addresses) == 1 { // the server of a cluster depends on the key
		h.common = append(h.common, serverAt(addresses[0])...)
	}
	return h
}

type redisHook struct {
	tracer trace.Tracer
	common []attribute.KeyValue
}

// DialHook implements [redis.Hook].
func (redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook]. ProcessHook is called for each command of a request,
// also for those sent in pipelines.
func (redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook].
func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !trace.SpanContextFromContext(ctx).IsSampled() {
			return next(ctx, cmd)
		}
		operation := strings.ToUpper(cmd.Name())
		ctx, span := h.tracer.Start(ctx, operation, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(h.common...),
			trace.WithAttributes(semconv.DBOperationName(operation)))
		defer span.End()
		if operation == "EVALSHA" {
			span.SetAttributes(semconv.DBStoredProcedureName(fmt.Sprint(cmd.Args()[1])))
		}
		err := next(ctx, cmd)
		if err != nil && !errors.Is(err, redis.Nil) {
			fail(span, redisFailure(err))
			if reply, ok := errors.AsType[redis.Error](err); ok {
				span.SetAttributes(semconv.DBResponseStatusCode(firstWord(reply.Error())))
			}
		}
		return err
	}
}

// redisFailure returns the error type: the first word of an error reply, timeout, or unreachable.
func redisFailure(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return firstWord(reply.Error())
	}
	if network, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout() {
		return "timeout"
	}
	return "unreachable"
}

// firstWord returns the kind of a Redis error: NOSCRIPT for "NOSCRIPT No matching script".
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
