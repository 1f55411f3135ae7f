package testkit

import (
	"testing"
	"time"
)

func TestGoroutinesMayEndAfterTheLastTest(t *testing.T) {
	go func() { <-time.After(time.Second) }()
	Must(t, findLeaks())
}
