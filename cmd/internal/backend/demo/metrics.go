package demo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/inventory"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// metricsAge is longer than the longest range, so that the first hour of the range is complete.
const metricsAge = 30*day + 2*time.Hour

// Shares of a disk at which it is cleaned up, and after that.
const diskFull, diskClean = 0.92, 0.45

// sampleInterval returns the interval between samples of the given age. For a fast start, an agent
// reported every five minutes, and samples older than the raw ranges have longer intervals, but
// each hour has one.
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

func (t *teamSeeder) insertMetrics(ctx context.Context, s inventory.Server) error {
	load := newLoad(t.random("metrics", s.Name), t.now)
	for at := t.now.Add(-metricsAge).Truncate(time.Hour); at.Before(t.now); at = at.Add(sampleInterval(t.now.Sub(at))) {
		sample := load.At(at)
		sample.ServerId = s.ID
		if err := t.recorder.Metrics(ctx, sample); err != nil {
			return fmt.Errorf("insert metrics of %s: %w", s.Name, err)
		}
	}
	return nil
}

// A Load generates the metrics of a server: a base that depends on the time of day, noise, and
// growing disk use.
type Load struct {
	random             *rand.Rand
	cpu, swing         float64 // percent
	ramTotal, ramShare float64
	diskTotal          float64
	disk               float64 // used at diskAt
	diskAt             time.Time
	diskGrowth         float64 // gibibytes a day
}

// ContinueLoad returns the load of a server of a demo team after its last point, with noise from
// random.
func ContinueLoad(team, server string, last query.ServerMetric, random *rand.Rand) *Load {
	l := newLoad(topicRandom(team, "metrics", server), time.Time{})
	l.random, l.disk, l.diskAt = random, last.DiskUsedGb, time.Unix(0, last.At)
	return l
}

func newLoad(r *rand.Rand, diskAt time.Time) *Load {
	l := &Load{
		diskAt:    diskAt,
		random:    r,
		cpu:       8 + 35*r.Float64(),
		swing:     5 + 25*r.Float64(),
		ramTotal:  Pick(r, []float64{4096, 8192, 16384, 32768, 65536}),
		ramShare:  0.35 + 0.4*r.Float64(),
		diskTotal: Pick(r, []float64{40, 80, 160, 320, 1024}),
	}
	l.disk = l.diskTotal * (0.3 + 0.4*r.Float64())
	l.diskGrowth = l.diskTotal * 0.004 * r.Float64()
	return l
}

// At returns the sample of a time. A disk that is nearly full is cleaned up.
func (l *Load) At(at time.Time) *ingestv1.ServerMetrics {
	const busiestHour = 15
	hour := float64(at.Hour()) + float64(at.Minute())/60
	busy := math.Cos((hour - busiestHour) / 24 * 2 * math.Pi)
	cpu := l.cpu + l.swing*busy/2 + 4*l.random.NormFloat64()
	if l.random.IntN(200) == 0 {
		cpu += 40 * l.random.Float64() // a batch job
	}
	ram := l.ramShare + 0.05*busy + 0.01*l.random.NormFloat64()
	disk := l.disk - l.diskGrowth*l.diskAt.Sub(at).Hours()/24
	if disk > diskFull*l.diskTotal {
		disk = diskClean * l.diskTotal
		l.disk, l.diskAt = disk, at
	}
	return &ingestv1.ServerMetrics{
		At:          timestamppb.New(at),
		CpuPercent:  round(min(100, max(0.3, cpu)), 10),
		RamUsedMb:   round(l.ramTotal*min(0.98, ram), 1),
		RamTotalMb:  l.ramTotal,
		DiskUsedGb:  round(disk, 100),
		DiskTotalGb: l.diskTotal,
	}
}

// round rounds to 1/scale: a scale of 10 keeps one decimal, 100 two.
func round(value, scale float64) float64 { return math.Round(value*scale) / scale }
