package logging_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/kit/logging"
)

// The database fails: the dispatcher of notifications logs each attempt, one per second.
func TestRepeatedLinesAreBoundedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger, limiter, err := logging.NewRepeated(slog.NewTextHandler(&out, nil), time.Now, prometheus.NewRegistry())
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- limiter.Run(ctx) }()
		const seconds, most = 600, 20 // per minute
		for range seconds {
			logger.Error("looking for due deliveries failed", "cause", "disk full")
			time.Sleep(time.Second)
		}
		logger.With("part", "calls").Warn("finished call")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), `msg="looking for due`); n != seconds/60*most || !strings.Contains(out.String(), "finished call") {
			t.Errorf("%d lines", n)
		}
		if n := strings.Count(out.String(), "log lines suppressed"); n < 10 || n > 12 {
			t.Errorf("%d reports of suppressed lines: %s", n, out.String())
		}
	})
}
