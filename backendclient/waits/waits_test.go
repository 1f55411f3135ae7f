package waits_test

import (
	"context"
	"testing"
	"time"

	"opsgate/backendclient/waits"
)

func TestWaitsAreToldToWhoeverWantsToKnow(t *testing.T) {
	var w waits.Waits
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), waits.Key{}, &w))
	defer cancel()
	waits.Of(ctx).Add(waits.Limiter, time.Second)
	waits.Of(ctx).Add(waits.Limiter, time.Millisecond)
	waits.Of(ctx).Retry()
	if w.Took(waits.Limiter) != 1001*time.Millisecond || w.Took(waits.Service) != 0 || w.Retries != 1 {
		t.Errorf("got %+v", w)
	}
}

func TestNobodyNeedWantToKnow(t *testing.T) {
	waits.Of(t.Context()).Add(waits.Identity, time.Second)
	waits.Of(t.Context()).Retry()
}

func TestWhatGoesOnApartIsNotAdded(t *testing.T) {
	var w waits.Waits
	ctx := waits.Apart(context.WithValue(t.Context(), waits.Key{}, &w))
	waits.Of(ctx).Add(waits.Service, time.Second)
	waits.Of(ctx).Retry()
	if w != (waits.Waits{}) {
		t.Errorf("got %+v", w)
	}
}
