package command

import (
	"flag"
	"io"
	"testing"
	"time"

	"opsgate/cmd/internal/test/metricspage"
	"opsgate/internal/testkit"
)

var update = flag.Bool("update", false, "write the table of the backend's metrics")

func TestEveryRegisteredMetricIsDocumented(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // enables traces
	c := serve{dataDir: dataDir{DataDir: t.TempDir()}}
	c.Outgoing.SMTP, c.Outgoing.SMTPTLS = "127.0.0.1:1", "none"
	c.Outgoing.MailFrom, c.Outgoing.ManageURL = "status@harbour.example", "https://harbour.example"
	s, err := c.open(t.Context(), Environment{Err: io.Discard, Clock: time.Now})
	testkit.Must(t, err)
	if _, err := s.delivery(); err != nil {
		t.Fatal(err)
	}
	metricspage.Check(t, "opsbackend", s.registry, *update)
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
