package wiring_test

import (
	"flag"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/test/metricspage"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/filereader"
	"opsgate/internal/testkit"
)

var update = flag.Bool("update", false, "write the table of the gateway's metrics")

// everything returns a configuration with all optional parts, whose services, Redis and collector
// are all at one address.
func everything(t *testing.T, address string) (config.Loaded, *certstest.Authority) {
	t.Helper()
	c := settings(address)
	c.RateLimit.Limits = append(c.RateLimit.Limits, config.Limit{Name: "tried", Requests: 1, Per: c.RateLimit.Limits[0].Per, Shadow: true})
	c.RateLimit.Store, c.RateLimit.Redis.Addresses = config.StoreRedis, []string{address}
	c.Tracing.Endpoint = "http://" + address
	authority, files := newTLSFiles(t)
	c.TLS = config.TLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	c.Admin.TLS = config.AdminTLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	return config.Loaded{Config: c, Certificates: []config.Certificate{{Key: "tls.cert_file"}}, Reader: new(filereader.Reader)}, authority
}

func TestEveryRegisteredMetricIsDocumented(t *testing.T) {
	c, _ := everything(t, "127.0.0.1:1")
	e, err := listen(t, c) // no part waits for what it connects to
	testkit.Must(t, err)
	metricspage.Check(t, "opsgate", e.Registry(), *update)
	testkit.Must(t, e.Close())
}
