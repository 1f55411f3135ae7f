package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/gate/config"
)

const withRemovedKeys = `
http: {http2: {max_concurrent_streams: 5}, body_timeout: 4s}
authn:
  negative_for: any value
upstreams:
  fleet: &unused {address: 127.0.0.1:1}
  monitoring: *unused
  incident: *unused
  audit: *unused
  identity: *unused
`

func TestRemovedKeysAreAcceptedWithAWarning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opsgate.yaml")
	if err := os.WriteFile(path, []byte(withRemovedKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(config.Options{Path: path, Environment: []string{
		"OPSGATE_RATE_LIMIT_REDIS_POOL_SIZE=7", "OPSGATE_HTTP_HTTP2_MAX_CONCURRENT_STREAMS=5",
	}})
	if err != nil {
		t.Fatal(err)
	}
	const text = "has no effect and will be removed in the next major version: "
	for _, want := range []string{
		path + ":2: http.http2: " + text + "an HTTP/2 connection has up to 100 requests at once",
		path + ":4: authn.negative_for: " + text, "OPSGATE_RATE_LIMIT_REDIS_POOL_SIZE: " + text,
		"OPSGATE_HTTP_HTTP2_MAX_CONCURRENT_STREAMS: " + text, // a key of a removed mapping
	} {
		if !strings.Contains(got.Warnings.Error(), want) {
			t.Errorf("no warning %q in\n%v", want, got.Warnings)
		}
	}
	if len(got.Warnings) != 4 || got.HTTP.BodyTimeout.String() != "4s" {
		t.Errorf("got %v with %+v", got.Warnings, got.HTTP)
	}
}

func TestTheSchemaAcceptsRemovedKeys(t *testing.T) {
	var document any
	if err := yaml.Unmarshal([]byte(withRemovedKeys), &document); err != nil {
		t.Fatal(err)
	}
	if err := compileSchema(t).Validate(document); err != nil {
		t.Error(err)
	}
}

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
