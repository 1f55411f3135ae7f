package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
)

// A month simulates agents and probes that report each minute, and maintenance each hour.
type month struct {
	*system

	team     team
	servers  []string
	monitors []string
}

func startMonth(t testing.TB, servers, monitors int) *month {
	t.Helper()
	s := startSystem(t)
	m := &month{system: s, team: s.team("harbour")}
	for range servers {
		m.servers = append(m.servers, s.addServer(m.team.id))
	}
	for i := range monitors {
		m.monitors = append(m.monitors, fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		s.insert(func(ctx context.Context, q *query.Queries) error {
			return q.InsertMonitor(ctx, query.InsertMonitorParams{ID: m.monitors[i], TeamID: m.team.id, Status: "up"})
		})
	}
	return m
}

// pass lets hours pass, and calls maintain after each.
func (m *month) pass(hours int, maintain func()) {
	for range hours {
		m.insert(func(ctx context.Context, q *query.Queries) error {
			for range 60 {
				m.clock.Move(time.Minute)
				if err := m.reportAll(ctx, q, m.clock.Now().UnixNano()); err != nil {
					return err
				}
			}
			return nil
		})
		maintain()
	}
}

func (m *month) reportAll(ctx context.Context, q *query.Queries, at int64) error {
	for i, server := range m.servers {
		err := q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{
			ServerID: server, At: at, CpuPercent: float64(at%997) / 10, RamUsedMb: float64(at%8191 + int64(i)), RamTotalMb: 8192,
			DiskUsedGb: float64(at%7919) / 100, DiskTotalGb: 160,
		})
		if err != nil {
			return err
		}
	}
	for _, monitor := range m.monitors {
		err := q.InsertMonitorCheckAnyTeam(ctx, query.InsertMonitorCheckAnyTeamParams{MonitorID: monitor, CheckedAt: at, Status: "up", LatencyMs: at % 400})
		if err != nil {
			return err
		}
	}
	return nil
}

// megabytes returns the size of the database with its log of writes.
func (m *month) megabytes() (size float64) {
	m.t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(filepath.Join(m.dir, store.FileName+suffix))
		testkit.Must(m.t, err)
		size += float64(info.Size()) / 1e6
	}
	return size
}

func TestFileDoesNotGrowWithRawPoints(t *testing.T) {
	m := startMonth(t, 3, 0)
	m.pass(3*24, m.maintain)
	first := m.megabytes()
	m.pass(6*24, m.maintain)
	// Three servers have three rollups an hour, of some 70 bytes.
	if growth := m.megabytes() - first; growth > 0.2 {
		t.Errorf("the file grew by %.2f MB in six days, from %.2f MB", growth, first)
	}
}

// The size of the file after 30 days with 28 servers and 16 monitors, which report each minute, and how long a pass takes. It needs some
// three minutes.
func BenchmarkMonthOfReports(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	for b.Loop() {
		m := startMonth(b, 28, 16)
		var passes []time.Duration
		maintain := func() {
			began := time.Now()
			m.maintain()
			passes = append(passes, time.Since(began))
		}
		for _, days := range []int{3, 30, 60} {
			m.pass(days*24-len(passes), maintain)
			b.ReportMetric(m.megabytes(), fmt.Sprintf("MB/day%d", days))
		}
		slices.Sort(passes)
		b.ReportMetric(passes[len(passes)/2].Seconds()*1e3, "ms/pass")
		b.ReportMetric(passes[len(passes)-1].Seconds()*1e3, "ms/longest-pass")
	}
}
