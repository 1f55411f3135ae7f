package testkit

import "testing"

func TestAPortIsReservedOnce(t *testing.T) {
	if err := reserve(FreePort(t)); err == nil {
		t.Error("a port is reserved twice")
	}
}
