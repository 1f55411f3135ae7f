package config_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
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
	c.Authn.LookupTimeout = config.Duration(2 * time.Minute)
	if c.BreakerWindow() != 4*time.Minute {
		t.Errorf("with lookups of two minutes: %v", c.BreakerWindow())
	}
}

const memoryLimit = 460 << 20

// loadWithin loads a configuration for a gateway with a memory limit.
func loadWithin(t *testing.T, limit int64, maxConnections string) config.Loaded {
	t.Helper()
	loaded, err := config.Load(config.Options{
		NoFile: true, MemoryLimit: limit,
		Flags: append(upstreams(), config.Setting{Key: "http.max_connections", Value: maxConnections, From: "--here"}),
	})
	testkit.Must(t, err)
	return loaded
}

func TestAutomaticConnectionsFollowTheMemoryLimit(t *testing.T) {
	fit := config.Loaded{Config: config.Default(), MemoryLimit: memoryLimit}.MaxConnections()
	for _, test := range []struct {
		limit  int64
		value  string
		want   int
		origin string
	}{
		{memoryLimit, "auto", fit, "--here: auto, from the memory limit of 460 MiB"},
		{0, "auto", 10_000, "--here: auto, without a memory limit"},
		{memoryLimit, "300", 300, "--here"},
	} {
		loaded := loadWithin(t, test.limit, test.value)
		want := config.Value{Key: "http.max_connections", Value: fmt.Sprint(test.want), Origin: test.origin}
		if got := loaded.MaxConnections(); got != test.want || !slices.Contains(loaded.Effective(), want) {
			t.Errorf("%+v: got %d, %+v", test, got, loaded.Effective())
		}
	}
	if a, b := loadWithin(t, memoryLimit, "auto"), loadWithin(t, 0, "auto"); a.Version() != b.Version() {
		t.Error("the version depends on the memory limit")
	}
}

func TestWarningOfMoreConnectionsThanFitIntoTheMemoryLimit(t *testing.T) {
	fit := config.Loaded{Config: config.Default(), MemoryLimit: memoryLimit}.MaxConnections()
	for _, test := range []struct {
		limit int64
		value string
		want  bool
	}{
		{memoryLimit, "auto", false},
		{memoryLimit, fmt.Sprint(fit), false},
		{memoryLimit, fmt.Sprint(fit + 1), true},
		{0, "1000000", false},
	} {
		if got := loadWithin(t, test.limit, test.value).Warnings.Error(); strings.Contains(got, "http.max_connections") != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	want := fmt.Sprintf("http.max_connections: is 10000, which can need 742 MiB: of the memory limit of 460 MiB connections may use 195 MiB; auto is %d here", fit)
	if got := loadWithin(t, memoryLimit, "10000").Warnings.Error(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectionsFitIntoTheLimitOfOpenFiles(t *testing.T) {
	const key, limits = "http.max_connections", " of 1024 open files (ulimit -n, LimitNOFILE)"
	inMemory := config.Loaded{Config: config.Default(), MemoryLimit: memoryLimit}.MaxConnections()
	for _, test := range []struct {
		files   int64
		value   string
		want    int
		origin  string
		warning string
	}{
		{1024, "auto", 512, "--here: auto, from the limit of 1024 open files",
			fmt.Sprintf("is auto, and only 512 by the limit"+limits+"; memory is enough for %d", inMemory)},
		{1024, "600", 600, "--here", "is 600: of the limit" + limits + " connections may use 512; past it none is accepted"},
		{1024, "512", 512, "--here", ""},
		{256, "auto", 100, "--here: auto, from the limit of 256 open files", "is auto, and only 100"},
		{65536, "auto", inMemory, "--here: auto, from the memory limit of 460 MiB", ""},
	} {
		loaded, err := config.Load(config.Options{
			NoFile: true, MemoryLimit: memoryLimit, OpenFiles: test.files,
			Flags: append(upstreams(), config.Setting{Key: key, Value: test.value, From: "--here"}),
		})
		testkit.Must(t, err)
		want := config.Value{Key: key, Value: fmt.Sprint(test.want), Origin: test.origin}
		if got := loaded.MaxConnections(); got != test.want || !slices.Contains(loaded.Effective(), want) {
			t.Errorf("%+v: got %d, %+v", test, got, loaded.Effective())
		}
		warnings := loaded.Warnings.Error()
		if test.warning == "" && strings.Contains(warnings, "open files") || !strings.Contains(warnings, test.warning) {
			t.Errorf("%+v: got %q", test, warnings)
		}
	}
}

func TestWarningOfBodiesThatDoNotFitIntoTheMemoryLimit(t *testing.T) {
	load := func(limit int64, inFlight, size string) string {
		t.Helper()
		loaded, err := config.Load(config.Options{NoFile: true, MemoryLimit: limit, Flags: append(upstreams(),
			config.Setting{Key: "http.max_in_flight", Value: inFlight}, config.Setting{Key: "http.max_body_bytes", Value: size})})
		testkit.Must(t, err)
		return loaded.Warnings.Error()
	}
	for _, test := range []struct {
		limit          int64
		inFlight, size string
		want           bool
	}{
		{memoryLimit, "1024", "128KiB", false},
		{memoryLimit, "460", "1MiB", false},
		{memoryLimit, "461", "1MiB", true},
		{0, "1024", "16MiB", false},
	} {
		if got := load(test.limit, test.inFlight, test.size); strings.Contains(got, "http.max_body_bytes") != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	const want = "http.max_body_bytes: is 16MiB, and http.max_in_flight (1024) such bodies need 16384 MiB: of the memory limit of 460 MiB " +
		"bodies may use 28 MiB, one team half of that; further ones wait, and get 408 after http.body_timeout"
	if got := load(memoryLimit, "1024", "16MiB"); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWarningOfAPublicListenerWithoutTLS(t *testing.T) {
	pem, err := filepath.Abs("testdata/certificate.pem") // loadText changes the working directory
	testkit.Must(t, err)
	for _, test := range []struct{ text, want string }{
		{"listen: localhost:8080\n", ""},
		{"{listen: \":8080\", trusted_proxies: [10.0.0.0/8]}\n", ""},
		{"{listen: \":8080\", tls: {cert_file: " + pem + ", key_file: " + pem + "}}\n", ""},
		{"listen: :8080\n",
			"opsgate.yaml:1: listen: is :8080, not on loopback, without TLS: set tls.cert_file and key_file, or trusted_proxies if a proxy ends TLS"},
	} {
		if got := loadText(t, test.text).Warnings.Error(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.text, got, test.want)
		}
	}
}
