package rehearsal_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/rehearsal"
	"opsgate/gateway/openapi/openapitest"
)

func TestCutsOnTheWire(t *testing.T) {
	seen := make(map[rehearsal.Fault]bool)
	for seed := range uint64(20) {
		server := httptest.NewServer(newRehearsal(seed).Wrap(http.HandlerFunc(fakeGateway)))
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // it does not repeat by itself
		send := func(method, target string) (string, error) {
			body := strings.NewReader(writing)
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, body)
			testkit.Must(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			response, err := client.Do(r)
			if err != nil {
				return "", err
			}
			defer func() { _ = response.Body.Close() }()
			content, err := io.ReadAll(response.Body)
			return string(content), err
		}
		if _, err := send(http.MethodGet, "/v1/me"); err != nil {
			t.Fatalf("the first request of a token is disturbed: %v", err)
		}
		content, err := send(http.MethodPost, "/v1/incidents")
		switch {
		case content == "" && isCut(err, io.EOF):
			seen[rehearsal.CutBefore] = true
		case strings.HasPrefix(content, `{"id"`) && isCut(err, io.ErrUnexpectedEOF):
			seen[rehearsal.CutInside] = true
		default:
			t.Fatalf("got %q, %v", content, err)
		}
		server.Close()
	}
	if len(seen) < 2 {
		t.Errorf("got only %v", seen)
	}
}

// isCut reports whether the connection was closed, which has the given error, or reset, because a part of the request had not been read.
func isCut(err, closed error) bool {
	return errors.Is(err, closed) || errors.Is(err, syscall.ECONNRESET)
}

// The gateway's validator knows the headers and the body of each error.
func TestInjectedErrorsMatchTheDescription(t *testing.T) {
	validator := openapitest.New(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, 1)
		left := map[int]bool{429: true, 503: true}
		for i := 0; len(left) > 0 && i < 100; i++ {
			r := newRequest("GET", "/v1/servers", "")
			r.Header.Set("X-Request-Id", "mine")
			answer, wasCut := c.try(r)
			if wasCut || !left[answer.Code] {
				continue
			}
			delete(left, answer.Code)
			validator.CheckResponse(t, openapitest.Exchange{Request: r, Status: answer.Code, Header: answer.Header(), Body: answer.Body.Bytes()})
			if id := answer.Header().Get("X-Request-Id"); id != "mine" {
				t.Errorf("request id %q", id)
			}
		}
		if len(left) > 0 {
			t.Errorf("not met: %v", left)
		}
	})
}

func TestUnusualRequestIDsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, 1)
		for i := range 60 {
			r, id := newRequest("GET", "/v1/servers", ""), []string{token, "a[b]"}[i%2]
			r.Header.Set("X-Request-Id", id)
			if answer, _ := c.try(r); strings.Contains(fmt.Sprint(answer.Header()), id) {
				t.Fatalf("got %v", answer.Header())
			}
		}
	})
}

func TestOtherPathsAreNotDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, 1)
		for range 40 {
			r := newRequest("GET", "/docs/", "")
			began := time.Now()
			if answer, wasCut := c.try(r); wasCut || answer.Body.String() != `{"id":"1"}` || time.Since(began) > 0 {
				t.Fatalf("got %d %s", answer.Code, answer.Body)
			}
		}
		if n := c.h.Score().Requests; n != 0 {
			t.Errorf("%d requests are scored", n)
		}
	})
}

func TestErrorsOfTheGatewayAreNotDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, 1)
		for range 40 {
			missing := newRequest("GET", "/v1/missing", "")
			answer, wasCut := c.try(missing)
			if answer.Code == http.StatusOK || wasCut || strings.Contains(answer.Body.String(), "rehearsal") {
				t.Fatalf("got %d %s", answer.Code, answer.Body)
			}
			unknown := httptest.NewRequest("GET", "/v1/me", http.NoBody)
			if answer, wasCut := c.try(unknown); wasCut || answer.Code != http.StatusUnauthorized {
				t.Fatalf("without a token: got %d %s", answer.Code, answer.Body)
			}
		}
	})
}

func TestBodiesReachTheGateway(t *testing.T) {
	for _, size := range []int{0, 1, 100_000, 300_000} {
		c := newCaller(t, 1)
		r := httptest.NewRequest("POST", "/v1/incidents", strings.NewReader(strings.Repeat("x", size)))
		r.Header.Set("Authorization", "Bearer "+token)
		if answer, _ := c.try(r); !strings.Contains(answer.Body.String(), fmt.Sprintf(`"bytes":%d}`, size)) {
			t.Errorf("%d bytes: got %s", size, answer.Body)
		}
	}
}

// A lateBody is a body of which only the beginning arrives in time.
type lateBody struct {
	t     *testing.T
	reads int
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.reads++; b.reads > 1 {
		b.t.Error("it is read again after its deadline")
	}
	return copy(p, `{"title"`), os.ErrDeadlineExceeded
}

func TestLateBodyIsAwaitedOnce(t *testing.T) {
	c := newCaller(t, 1)
	c.handler = c.h.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if string(content) != `{"title"` || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the gateway reads %q, %v", content, err)
		}
	}))
	_, _ = c.try(httptest.NewRequest("POST", "/v1/incidents", &lateBody{t: t}))
}
