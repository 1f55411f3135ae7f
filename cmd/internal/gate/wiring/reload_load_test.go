package wiring_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"opsgate/cmd/internal/gate/config"
)

// Two keys that are used in different places of a request, the default limits and the size of bodies, change together. No request
// fails, no request sees one old and one new value, and each configuration is active as soon as Reload returns.
func TestReloadsUnderLoad(t *testing.T) {
	const changes, clients = 50, 4
	services := startServices(t)
	services.scopes = []string{"incidents:write"}
	r := reloadingGateway(t, services, numbered(0))
	var oldest, newest atomic.Int64 // versions that may be active
	var load sync.WaitGroup
	done, answered := make(chan struct{}), new(atomic.Int64)
	for range clients {
		load.Go(func() {
			client := &http.Transport{}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				first := oldest.Load()
				version, err := r.post(client)
				if err != nil {
					t.Error(err)
					return
				}
				if version < first || version > newest.Load() {
					t.Errorf("answered under configuration %d", version)
				}
				answered.Add(1)
			}
		})
	}
	invalid := 0
	for version := int64(1); version <= changes; version++ {
		if version%4 == 0 {
			invalid++
			if err := r.reload(t, numbered(version)+"http: {}\n"); err == nil {
				t.Error("a repeated key: no error")
			}
			continue
		}
		newest.Store(version)
		if err := r.reload(t, numbered(version)); err != nil {
			t.Error(err)
		}
		oldest.Store(version)
		before := answered.Load()
		eventually(t, "a few requests per configuration", func() bool { return answered.Load() >= before+clients })
	}
	close(done)
	load.Wait()
	t.Logf("%d requests under %d configurations, %d more refused", answered.Load(), changes-invalid+1, invalid)
	r.finish(t)
}

// numbered returns a configuration by its version. Odd versions accept small bodies only, and each has another number of connections.
func numbered(version int64) string {
	size := 16
	if version%2 == 1 {
		size = 1
	}
	return fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1m}]}\nhttp: {max_body_bytes: %dKiB, max_connections: %d}\n",
		1_000_000+version, size, 1000+version)
}

// post sends a body of 2 KiB, and returns the version of the configuration in the response.
func (r *reloading) post(client *http.Transport) (version int64, err error) {
	body := bytes.Repeat([]byte("x"), 2<<10)
	request, err := http.NewRequest(http.MethodPost, "http://"+r.Address().String()+"/v1/incidents", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	got, err := client.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = got.Body.Close() }()
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		return 0, err
	}
	version = int64(requests(response{header: got.Header})) - 1_000_000
	want := http.StatusUnprocessableEntity
	if version%2 == 1 {
		want = http.StatusRequestEntityTooLarge
	}
	if got.StatusCode != want {
		return 0, fmt.Errorf("status %d under configuration %d", got.StatusCode, version)
	}
	return version, nil
}

func TestConcurrentReloadsAreSerialized(t *testing.T) {
	services := startServices(t)
	r := reloadingGateway(t, services, limits(1))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := r.Reload("test"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.write(t, "listen: x\n")
	if _, ok := errors.AsType[config.Problems](r.Reload("test")); !ok {
		t.Error("no problems")
	}
	if n := strings.Count(r.log.String(), "configuration unchanged"); n != 8 {
		t.Errorf("%d lines", n)
	}
	r.finish(t)
}
