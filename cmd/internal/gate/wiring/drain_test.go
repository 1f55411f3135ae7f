package wiring_test

import (
	"strings"
	"testing"
	"time"
)

func TestDrainServesUntilRequestsInFlightHaveEnded(t *testing.T) {
	const wait = 3 * time.Second // long enough for two requests on a busy machine
	r := startHolding(t, limits(100), "OPSGATE_SHUTDOWN_DRAIN_WAIT="+wait.String())
	r.readiness(t, "ready")
	held := r.hold()

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
	close(r.services.Release)
	if got := <-held; got.status != 200 {
		t.Errorf("the request in flight: got %+v", got)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < wait {
		t.Errorf("ended after %s", took)
	}
	if _, err := r.try(r.Address(), "/v1/me"); err == nil {
		t.Error("the address still accepts connections")
	}
}

func TestRequestsPastTheGracePeriodAreCutOff(t *testing.T) {
	r := startHolding(t, limits(100), "OPSGATE_SHUTDOWN_GRACE=50ms")
	held := r.hold()
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "requests on the public listener were cut off") {
		t.Errorf("got %v", err)
	}
	if got := <-held; got.status != 0 {
		t.Errorf("got %+v", got)
	}
}
