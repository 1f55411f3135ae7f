package timings_test

import (
	"context"
	"testing"
	"time"

	"opsgate/internal/timings"
)

func TestTimingsAreAddedToTheContext(t *testing.T) {
	var got timings.Timings
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), timings.ContextKey{}, &got))
	defer cancel()
	timings.FromContext(ctx).Add(timings.Limiter, time.Second)
	timings.FromContext(ctx).Add(timings.Limiter, time.Millisecond)
	timings.FromContext(ctx).AddRetry()
	if got.Waited(timings.Limiter) != 1001*time.Millisecond || got.Waited(timings.Service) != 0 || got.Retries != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestAContextWithoutTimingsIsAccepted(t *testing.T) {
	timings.FromContext(t.Context()).Add(timings.Identity, time.Second)
	timings.FromContext(t.Context()).AddRetry()
}

func TestADetachedContextAddsNothing(t *testing.T) {
	var got timings.Timings
	ctx := timings.Detach(context.WithValue(t.Context(), timings.ContextKey{}, &got))
	timings.FromContext(ctx).Add(timings.Service, time.Second)
	timings.FromContext(ctx).AddRetry()
	if got != (timings.Timings{}) {
		t.Errorf("got %+v", got)
	}
}
