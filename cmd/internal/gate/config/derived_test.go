package config_test

import (
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
)

func TestDerivedTimes(t *testing.T) {
	c := config.Default()
	if c.BreakerWindow() != 20*time.Second || c.RateLimit.Redis.DialTimeout() != 100*time.Millisecond {
		t.Errorf("by default: %v, %v", c.BreakerWindow(), c.RateLimit.Redis.DialTimeout())
	}
	c.Routes = config.Routes{"v1GetServer": {Timeout: config.Duration(time.Minute)}}
	if c.BreakerWindow() != 2*time.Minute {
		t.Errorf("with a route of one minute: %v", c.BreakerWindow())
	}
	c.Authn.LookUpTimeout = config.Duration(2 * time.Minute)
	if c.BreakerWindow() != 4*time.Minute {
		t.Errorf("with look-ups of two minutes: %v", c.BreakerWindow())
	}
}
