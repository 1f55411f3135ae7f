package admin

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPointsAreDifferencesOfSamples(t *testing.T) {
	a, metrics := sampled(t)
	if traffic := a.samples.traffic(); traffic.Points != 0 || len(traffic.Routes) != 0 {
		t.Errorf("before there is a point: %+v", traffic)
	}
	metrics.count("v1Me", "200", 2, 0)
	metrics.count("v1Me", "304", 1, 0)
	metrics.count("v1Me", "429", 4, 0)
	a.sample()
	metrics.count("v1Me", "403", 3, 0)
	metrics.count("v1ListServers", "200", 20, 0) // a new route
	metrics.count("v1ListServers", "503", 1, 0)
	a.sampleTimes(2)
	traffic := a.samples.traffic()
	if traffic.Points != 3 || traffic.Every != 10 || traffic.MaxPoints != 90 || !traffic.End.Equal(noon) {
		t.Errorf("got %+v", traffic)
	}
	want := []RouteTraffic{
		{Name: "v1ListServers", Answered: []uint32{0, 20, 0}, Failed: []uint32{0, 1, 0}},
		{Name: "v1Me", Answered: []uint32{3, 0, 0}, Rejected: []uint32{0, 3, 0}, Limited: []uint32{4, 0, 0}},
	}
	if diff := cmp.Diff(want, traffic.Routes, cmpopts.IgnoreFields(RouteTraffic{}, "P50", "P99"), cmpopts.IgnoreUnexported(RouteTraffic{})); diff != "" {
		t.Error(diff)
	}
	if got := traffic.Total; !slices.Equal(got.Answered, []uint32{3, 20, 0}) || !slices.Equal(got.Limited, []uint32{4, 0, 0}) {
		t.Errorf("total: %+v", got)
	}
}

func TestHistoryHas15Minutes(t *testing.T) {
	a, metrics := sampled(t)
	metrics.count("v1Me", "200", 5, 0)
	a.sampleTimes(90)
	traffic := a.samples.traffic()
	if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[0] != 5 || slices.Max(got[1:]) != 0 {
		t.Errorf("got %+v", traffic)
	}
	metrics.count("v1Me", "200", 6, 0)
	a.sample()
	traffic = a.samples.traffic()
	if got := traffic.Total.Answered; traffic.Points != 90 || len(got) != 90 || got[89] != 6 || slices.Max(got[:89]) != 0 {
		t.Errorf("got %+v", traffic)
	}
	a.sampleTimes(200)
	if traffic = a.samples.traffic(); len(traffic.Routes) != 0 || traffic.Total.Answered != nil || traffic.Points != 90 || len(a.samples) != 91 {
		t.Errorf("got %+v", traffic)
	}
}

func TestLatenciesCoverFiveMinutes(t *testing.T) {
	a, metrics := sampled(t)
	metrics.count("slow", "200", 100, 50*time.Millisecond) // all in the bucket from 10 to 100 ms
	metrics.count("mixed", "200", 98, time.Millisecond)
	metrics.count("mixed", "200", 2, time.Minute)
	a.sample()
	traffic := a.samples.traffic()
	got := map[string][]*Latency{"total": {traffic.Total.P50}}
	for _, r := range traffic.Routes {
		got[r.Name] = []*Latency{r.P50, r.P99}
	}
	want := map[string][]*Latency{
		"slow": {{Seconds: .055}, {Seconds: .0991}}, "mixed": {{Seconds: .01 * 50 / 98}, {Seconds: 1, Over: true}}, "total": {{Seconds: .01 + .09*2/100}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	a.sampleTimes(30)
	traffic = a.samples.traffic()
	if got := traffic.Routes[0]; got.P50 != nil || got.P99 != nil || traffic.Total.P99 != nil {
		t.Errorf("after five minutes: %+v", got)
	}
}
