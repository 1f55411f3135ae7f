package demo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"opsgate/cmd/internal/refbackend/store/query"
)

// metricsAge is longer than the longest range, so that the first hour of the range is complete.
const metricsAge = 30*day + 2*time.Hour

// sampleInterval returns the interval between samples of the given age. Agents report every five minutes. For a fast start, samples older
// than the raw ranges have longer intervals, but each hour has one.
func sampleInterval(age time.Duration) time.Duration {
	switch {
	case age <= day+2*time.Hour:
		return 5 * time.Minute
	case age <= 7*day+2*time.Hour:
		return 30 * time.Minute
	default:
		return time.Hour
	}
}

func (t *teamSeeder) insertMetrics(ctx context.Context, s server) error {
	load := newLoad(t.random("metrics", s.name))
	serverID := t.id("server", s.name)
	for at := t.now.Add(-metricsAge).Truncate(time.Hour); at.Before(t.now); at = at.Add(sampleInterval(t.now.Sub(at))) {
		row := load.at(at, t.now)
		row.ServerID = serverID
		if err := t.q.InsertServerMetric(ctx, row); err != nil {
			return fmt.Errorf("insert metrics: %w", err)
		}
	}
	return nil
}

// A load generates metrics: a base that depends on the time of day, noise, and growing disk use.
type load struct {
	random             *rand.Rand
	cpu, swing         float64 // percent
	ramTotal, ramShare float64
	diskTotal, disk    float64
	diskGrowth         float64 // gibibytes a day
}

func newLoad(r *rand.Rand) *load {
	l := &load{
		random:    r,
		cpu:       8 + 35*r.Float64(),
		swing:     5 + 25*r.Float64(),
		ramTotal:  pick(r, []float64{4096, 8192, 16384, 32768, 65536}),
		ramShare:  0.35 + 0.4*r.Float64(),
		diskTotal: pick(r, []float64{40, 80, 160, 320, 1024}),
	}
	l.disk = l.diskTotal * (0.3 + 0.4*r.Float64())
	l.diskGrowth = l.diskTotal * 0.004 * r.Float64()
	return l
}

// at returns the sample of a time.
func (l *load) at(at, now time.Time) query.InsertServerMetricParams {
	const busiestHour = 15
	hour := float64(at.Hour()) + float64(at.Minute())/60
	busy := math.Cos((hour - busiestHour) / 24 * 2 * math.Pi)
	cpu := l.cpu + l.swing*busy/2 + 4*l.random.NormFloat64()
	if l.random.IntN(200) == 0 {
		cpu += 40 * l.random.Float64() // a batch job
	}
	ram := l.ramShare + 0.05*busy + 0.01*l.random.NormFloat64()
	return query.InsertServerMetricParams{
		At:          at.UnixNano(),
		CpuPercent:  round(min(100, max(0.3, cpu)), 10),
		RamUsedMb:   round(l.ramTotal*min(0.98, ram), 1),
		RamTotalMb:  l.ramTotal,
		DiskUsedGb:  round(l.disk-l.diskGrowth*now.Sub(at).Hours()/24, 100),
		DiskTotalGb: l.diskTotal,
	}
}

// round rounds to 1/scale: a scale of 10 keeps one decimal, 100 two.
func round(value, scale float64) float64 { return math.Round(value*scale) / scale }
