package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit"
)

// unavailableStore is a store of limits without a connection.
type unavailableStore struct{ ratelimit.Store }

var errUnavailable = &ratelimit.UnavailableError{RetryAfter: 7 * time.Second, Cause: errors.New("connection refused")}

func (unavailableStore) Peek(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, errUnavailable
}

func (unavailableStore) Reset(context.Context, string) error { return errUnavailable }

func TestExplainAndResetWithAnUnavailableStore(t *testing.T) {
	e := listenWithoutServices(t)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	e.parts.limiter.Store = unavailableStore{e.parts.limiter.Store}
	do := func(method, target string) *httptest.ResponseRecorder {
		request, w := httptest.NewRequest(method, target, http.NoBody), httptest.NewRecorder()
		request.Host = "localhost"
		e.parts.admin.ServeHTTP(w, request)
		return w
	}
	var x admin.Explanation
	got := do(http.MethodGet, "/admin/explain?token_id=tok-1&method=GET&path=/v1/servers")
	if err := json.Unmarshal(got.Body.Bytes(), &x); err != nil {
		t.Fatalf("%s: %v", got.Body, err)
	}
	if a := x.Answer; a.Status != 503 || a.Code != "unavailable" || a.RetryAfter != 7 || a.FailedCheck != "limits" {
		t.Errorf("got %+v", a)
	}
	if x.Limits[0].Remaining != nil || x.Limits[0].Reset != nil || x.Limits[0].Requests != 3 || x.Store.Error != errUnavailable.Error() {
		t.Errorf("got %+v, %+v", x.Limits[0], x.Store)
	}
	if got := do(http.MethodDelete, "/admin/limits/tok-1"); got.Code != 503 {
		t.Errorf("a reset: got %d %s", got.Code, got.Body)
	}
}
