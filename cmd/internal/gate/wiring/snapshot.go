package wiring

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// A snapshot is a configuration with the policies and the gateway built from it. It never changes:
// a request starts and ends under the same snapshot.
type snapshot struct {
	loaded  config.Loaded
	files   []string // read for the configuration
	version string
	since   time.Time // when the version became active

	policies *ratelimit.Policies
	gateway  *gateway.Gateway
}

// snapshot builds the snapshot of a configuration, or returns an error if a setting of any part is
// invalid. last is the active snapshot, or nil. Neither last nor any part of the process changes.
func (b *builder) snapshot(loaded config.Loaded, now time.Time, last *snapshot) (_ *snapshot, err error) {
	s := &snapshot{
		loaded: loaded, files: loaded.Files(), version: loaded.Version(), since: now,
	}
	var before *ratelimit.Policies
	if last != nil {
		before = last.policies
		if s.version == last.version {
			s.since = last.since
		}
	}
	if s.policies, err = config.NewPolicies(loaded, now, before); err != nil {
		return nil, err
	}
	if err := errors.Join(callSettings(loaded.Config).Validate(), tokenSettings(loaded.Config).Validate()); err != nil {
		return nil, err
	}
	options := b.options
	options.Policies = s.policies
	options.Timeout = time.Duration(loaded.HTTP.RequestTimeout)
	options.Timeouts = timeouts(loaded.Routes)
	options.BodyTimeout = time.Duration(loaded.HTTP.BodyTimeout)
	options.MaxBodyBytes = int64(loaded.HTTP.MaxBodyBytes)
	options.MaxHeaderBytes = int64(loaded.HTTP.MaxHeaderBytes)
	options.TrustedProxies = prefixes(loaded.TrustedProxies)
	options.TLS = loaded.TLS.CertFile != ""
	options.PublicURL, options.SecurityContact = loaded.PublicURL, loaded.SecurityContact
	options.LiveTokenPrefix = liveTokenPrefix(loaded.Config)
	options.LogFailuresOnly = !loaded.Log.Access || loaded.Log.Level.Slog() > slog.LevelInfo
	options.LogSkipFraction = 1 - loaded.Log.AccessSample.Fraction()
	options.Tracer = newTracer(b.traces, loaded.Config)
	s.gateway, err = gateway.New(options)
	return s, err
}

// activeConfig is the active configuration. It
//
//   - handles the public API, under the active snapshot: ServeHTTP;
//   - collects the metric of certificates: Describe, Collect;
//   - returns what the admin pages show of the configuration: report.
type activeConfig struct {
	// A request loads the snapshot once, so it never uses parts of two configurations.
	snapshot   atomic.Pointer[snapshot]
	lastReload atomic.Pointer[admin.Reload]
	// the certificates in use: their files are read for each connection, also after a refused
	// reload
	certificates atomic.Pointer[[]config.Certificate]
}

func newActiveConfig(first *snapshot) *activeConfig {
	a := new(activeConfig)
	a.snapshot.Store(first)
	a.certificates.Store(&first.loaded.Certificates)
	return a
}

// setCertificates replaces the certificates in use by the ones that were read last. It keeps the
// certificates whose files are read only at the start.
func (a *activeConfig) setCertificates(list []config.Certificate) {
	list = config.KeepStartOnly(list, *a.certificates.Load())
	a.certificates.Store(&list)
}

// ServeHTTP handles a request of the public API under the active snapshot.
func (a *activeConfig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.snapshot.Load().gateway.ServeHTTP(w, r)
}

// report returns the active configuration for the admin pages.
func (a *activeConfig) report() admin.Active {
	s := a.snapshot.Load()
	return admin.Active{
		Configuration: admin.Configuration{
			Version: s.version, Since: s.since.UTC(), File: s.loaded.Path, LastReload: a.lastReload.Load(),
			Certificates: *a.certificates.Load(),
		},
		Loaded: &s.loaded, Policies: s.policies, Gateway: s.gateway,
	}
}

// certificateDesc describes the metric of when certificates expire.
func certificateDesc() *prometheus.Desc {
	return prometheus.NewDesc("opsgate_tls_certificate_expiry_timestamp_seconds",
		"When the certificate in use expires, by the key of its file: the earliest needed one of a chain, the latest of "+
			"roots.",
		[]string{"key"}, nil)
}

// Describe implements [prometheus.Collector].
func (a *activeConfig) Describe(descs chan<- *prometheus.Desc) { descs <- certificateDesc() }

// Collect implements [prometheus.Collector]: it collects when the certificates expire.
func (a *activeConfig) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range *a.certificates.Load() {
		metrics <- prometheus.MustNewConstMetric(certificateDesc(), prometheus.GaugeValue, float64(c.Ends.Unix()), c.Key)
	}
}

func timeouts(routes config.Routes) map[string]time.Duration {
	byRoute := make(map[string]time.Duration, len(routes))
	for id, route := range routes {
		byRoute[id] = time.Duration(route.Timeout)
	}
	return byRoute
}

func prefixes(networks []config.Network) []netip.Prefix {
	list := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		list[i] = n.Prefix
	}
	return list
}

// liveTokenPrefix returns the prefix of the tokens of clients, such as ops_live_.
// Config.TokenPrefix is its beginning: ops_.
func liveTokenPrefix(c config.Config) string { return c.TokenPrefix + "live_" }
