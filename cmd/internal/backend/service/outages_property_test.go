package service_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// An oracle derives what checks cause from their complete history, where the backend keeps counts.
type oracle struct {
	results  []string // in order, without late and repeated ones
	status   string
	since    time.Time   // of the status
	downs    []time.Time // transitions to down
	current  *outageIncident
	all      []*outageIncident
	expected []string // the audit log
}

// An outageIncident is an incident that the monitor opened.
type outageIncident struct {
	resolved bool
	updates  int
}

// last reports whether there are n last results that all fulfill a condition.
func (o *oracle) last(n int, condition func(string) bool) bool {
	return len(o.results) >= n && !slices.ContainsFunc(o.results[len(o.results)-n:], func(r string) bool { return !condition(r) })
}

func (o *oracle) check(at time.Time, result string) {
	o.results = append(o.results, result)
	status := o.status
	switch {
	case o.last(3, func(r string) bool { return r == "down" }):
		status = "down"
	case o.last(2, func(r string) bool { return r == "up" }):
		status = "up"
	case status == "up" && result != "up", status == "down" && o.last(2, func(r string) bool { return r != "down" }):
		status = "degraded"
	}
	if status != o.status {
		o.transition(at, status)
	}
	recent := 0
	for _, down := range o.downs {
		if at.Sub(down) < time.Hour {
			recent++
		}
	}
	if o.current == nil || o.status != "up" || at.Sub(o.since) < time.Duration(max(recent, 1))*5*time.Minute {
		return
	}
	if !o.current.resolved {
		o.current.resolved = true
		o.current.updates++
		o.expected = append(o.expected, "incident.update_posted")
	}
	o.current = nil
}

func (o *oracle) transition(at time.Time, status string) {
	o.status, o.since = status, at
	kinds := map[string]string{"down": "monitor.down", "degraded": "monitor.degraded", "up": "monitor.recovered"}
	o.expected = append(o.expected, kinds[status])
	o.expected = append(o.expected, slices.Repeat([]string{"component.status_changed"}, 3)...)
	if status != "down" {
		return
	}
	o.downs = append(o.downs, at)
	if o.current == nil || o.current.resolved {
		o.current = &outageIncident{updates: 1}
		o.all = append(o.all, o.current)
		o.expected = append(o.expected, "incident.created")
	}
}

// person posts an update to one of the incidents.
func (o *oracle) person(i int, status incidentv1.IncidentStatus) {
	o.all[i].resolved = status == resolved
	o.all[i].updates++
	o.expected = append(o.expected, "incident.update_posted")
}

// A run is one case of the property test.
type run struct {
	*system

	rt    *rapid.T
	w     probed
	db    *sql.DB
	model oracle
}

func TestChecksCauseWhatTheirHistoryImplies(t *testing.T) {
	s := startSystem(t)
	db := s.file()
	rapid.Check(t, func(rt *rapid.T) {
		r := &run{system: s, w: s.addMonitor(s.team(uuid.NewString())), rt: rt, db: db, model: oracle{status: "up"}}
		steps := map[string]func(){"": func() {}, "compare": r.compare, "late": r.late, "refused": r.refused, "person": r.person}
		// Most results repeat, so that the monitor changes its status often enough, and stays up
		// long enough.
		results := rapid.SampledFrom([]string{"same", "same", "same", "up", "up", "down", "down", "degraded"})
		result := "up"
		for i := range rapid.IntRange(10, 60).Draw(rt, "checks") {
			if next := results.Draw(rt, "result"); next != "same" {
				result = next
			}
			// The microseconds keep two checks from being exactly an hour apart, where the
			// nanoseconds of the order of writes decide.
			s.clock.Move(time.Duration(rapid.SampledFrom([]int{20, 60, 60, 200, 400}).Draw(rt, "seconds"))*time.Second +
				time.Duration(i+1)*time.Microsecond)
			r.record(result)
			name := rapid.SampledFrom([]string{"", "", "", "", "compare", "late", "refused", "person"}).Draw(rt, "then")
			steps[name]()
		}
		r.compare()
	})
}

func (r *run) record(result string) {
	r.probe(r.w, result)
	r.model.check(r.clock.Now(), result)
}

// late sends a late or a repeated check.
func (r *run) late() {
	age := time.Duration(rapid.IntRange(0, 30).Draw(r.rt, "age")) * time.Second
	result := rapid.SampledFrom([]string{"up", "down"}).Draw(r.rt, "late result")
	testkit.Must(r.t, r.system.record(r.w.monitor, r.clock.Now().Add(-age), result))
	r.compare()
}

// refused makes a write of the next check fail, if the check has such a write, and records the
// check again.
func (r *run) refused() {
	write := rapid.SampledFrom([]string{
		"INSERT ON monitor_checks", "INSERT ON incidents", "INSERT ON incident_updates", "INSERT ON incident_components",
		"INSERT ON notifications", "INSERT ON audit_entries", "UPDATE ON monitors",
	}).Draw(r.rt, "write")
	result := rapid.SampledFrom([]string{"up", "down"}).Draw(r.rt, "refused result")
	r.clock.Move(time.Minute)
	_, err := r.db.Exec("CREATE TRIGGER refuse BEFORE " + write + " BEGIN SELECT RAISE(ABORT, 'refused'); END")
	testkit.Must(r.t, err)
	checks, written := r.checks(), r.backend.Written()
	failure := r.system.record(r.w.monitor, r.clock.Now(), result)
	_, err = r.db.Exec("DROP TRIGGER refuse")
	testkit.Must(r.t, err)
	if failure != nil {
		r.compare() // with the model of before
		select {
		case <-written:
			r.rt.Fatal("the dispatcher was woken")
		default:
		}
		if after := r.checks(); after != checks {
			r.rt.Fatalf("%d checks, %d before", after, checks)
		}
		r.record(result)
	} else {
		r.model.check(r.clock.Now(), result)
	}
	r.compare()
}

// checks returns the number of checks.
func (r *run) checks() (n int) {
	r.t.Helper()
	testkit.Must(r.t, r.db.QueryRow("SELECT count(*) FROM monitor_checks").Scan(&n))
	return n
}

// person posts an update to an incident.
func (r *run) person() {
	if len(r.model.all) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.model.all)-1).Draw(r.rt, "incident")
	status := rapid.SampledFrom([]incidentv1.IncidentStatus{2, resolved}).Draw(r.rt, "status")
	r.post(r.w, r.incidents(r.w.team)[i].GetId(), status)
	r.model.person(i, status)
	r.compare()
}

// compare compares the API's answers with the model.
func (r *run) compare() {
	r.t.Helper()
	if got := strings.TrimPrefix(strings.ToLower(r.state(r.w).GetStatus().String()), "monitor_status_"); got != r.model.status {
		r.rt.Fatalf("status %s, want %s after %v", got, r.model.status, r.model.results)
	}
	if got := r.kinds(r.w.team); !slices.Equal(got, r.model.expected) {
		r.rt.Fatalf("audit log %v, want %v after %v", got, r.model.expected, r.model.results)
	}
	open := false
	incidents := r.incidents(r.w.team)
	if len(incidents) != len(r.model.all) {
		r.rt.Fatalf("%d incidents, want %d", len(incidents), len(r.model.all))
	}
	for i, want := range r.model.all {
		open = open || !want.resolved
		if got := r.get(r.w.team, incidents[i].GetId()); (got.GetIncident().ResolvedAt != nil) != want.resolved || len(got.GetUpdates()) != want.updates {
			r.rt.Fatalf("incident %v, want %+v", got, want)
		}
	}
	component := map[string]incidentv1.PublicStatus{"up": 1, "degraded": 2, "down": 3}[r.model.status]
	page := component
	if open && page == incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL {
		page = incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED
	}
	r.wantOverall(r.w, page, component, component)
	if r.t.Failed() {
		r.rt.Fatal("a page differs")
	}
}

func TestRandomlyFlappingMonitorCausesAtMostTenNotificationsAnHour(t *testing.T) {
	s := startSystem(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := s.addMonitor(s.team(uuid.NewString()))
		// Down for a moment, then up for about as long as it takes to resolve the incident.
		for i := range rapid.IntRange(5, 9).Draw(rt, "outages") {
			for range 3 {
				s.clock.Move(time.Second)
				s.probe(w, "down")
			}
			for range rapid.IntRange(1, 4+2*(i%6)).Draw(rt, "checks") {
				s.clock.Move(time.Duration(rapid.IntRange(30, 200).Draw(rt, "seconds")) * time.Second)
				s.probe(w, "up")
			}
		}
		if most := s.mostInAnHour(w); most > 10 {
			rt.Fatalf("%d notifications in an hour", most)
		}
	})
}

// mostInAnHour returns the largest number of notifications within an hour.
func (s *system) mostInAnHour(w probed) (most int) {
	s.t.Helper()
	var times []time.Time
	for _, entry := range s.log(w.team) {
		if strings.HasPrefix(entry.GetActionType(), "incident.") {
			times = append(times, entry.GetCreatedAt().AsTime())
		}
	}
	if got := len(s.outbox(w.team)); got != len(times) {
		s.t.Fatalf("%d notifications, %d in the audit log", got, len(times))
	}
	for i, first := range times {
		n := 0
		for _, at := range times[i:] {
			if at.Sub(first) < time.Hour {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
