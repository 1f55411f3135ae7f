package wiring

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"opsgate/cmd/internal/gate/config"
)

// BenchmarkStatus measures the status that is taken with each heartbeat.
func BenchmarkStatus(b *testing.B) {
	file := filepath.Join(b.TempDir(), "opsgate.yaml")
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams:\n  fleet: &all {address: 127.0.0.1:1}\n  monitoring: *all\n" +
		"  incident: *all\n  audit: *all\n  identity: *all\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	loaded, err := config.Load(config.Options{Path: file})
	if err != nil {
		b.Fatal(err)
	}
	e, err := Listen(b.Context(), Options{Loaded: loaded, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		size = len(e.reports.inspector.Self().Encode())
	}
	b.ReportMetric(float64(size), "B/status")
}
