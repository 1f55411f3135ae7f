package wiring_test

import (
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/test/servicestest"
)

// hold starts a request that the fleet service does not answer before services.Release is closed. It returns once the call has arrived; the
// channel gets the response.
func (r *running) hold(t *testing.T, services *servicestest.Services) <-chan response {
	t.Helper()
	held := make(chan response, 1)
	go func() {
		got, err := r.try(r.Address(), "/v1/servers")
		if err != nil {
			got.body = err.Error()
		}
		held <- got
	}()
	<-services.Arrived
	return held
}

func TestDrainServesUntilRequestsInFlightHaveEnded(t *testing.T) {
	services := servicestest.Start(t)
	services.Release = make(chan struct{})
	c := settings(services.Address)
	c.Shutdown.DrainWait = config.Duration(3 * time.Second) // long enough for two requests on a busy machine
	r := run(t, c, services.Token)
	r.readiness(t, "ready")
	held := r.hold(t, services)

	began := time.Now()
	r.stop()
	if got := r.readiness(t, "draining"); got.status != 503 {
		t.Errorf("draining: got %d", got.status)
	}
	if got := r.get(t, r.Address(), "/v1/me"); got.status != 200 || !got.close {
		t.Errorf("a request during the drain wait: got %+v", got)
	}
	select {
	case err := <-r.ended:
		t.Fatalf("ended with a request in flight: %v", err)
	default:
	}
	close(services.Release)
	if got := <-held; got.status != 200 {
		t.Errorf("the request in flight: got %+v", got)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < time.Duration(c.Shutdown.DrainWait) {
		t.Errorf("ended after %s", took)
	}
	if _, err := r.try(r.Address(), "/v1/me"); err == nil {
		t.Error("the address still accepts connections")
	}
}

func TestRequestsPastTheGracePeriodAreCutOff(t *testing.T) {
	services := servicestest.Start(t)
	services.Release = make(chan struct{})
	c := settings(services.Address)
	c.Shutdown.Grace = config.Duration(50 * time.Millisecond)
	r := run(t, c, services.Token)
	held := r.hold(t, services)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "requests on the public listener were cut off") {
		t.Errorf("got %v", err)
	}
	if got := <-held; got.status != 0 {
		t.Errorf("got %+v", got)
	}
}
