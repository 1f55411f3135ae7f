package command_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/command"
	"opsgate/cmd/internal/test/devtest"
)

// get decodes the response to a request with the token full.
func (s *system) get(t *testing.T, path string, into any) {
	t.Helper()
	status, body := s.call(t, http.MethodGet, s.BaseURL+path, s.Tokens["full"], "")
	if status != 200 {
		t.Fatalf("%s: got %d %s", path, status, body)
	}
	testkit.Must(t, json.Unmarshal([]byte(body), into))
}

// A run with a start repeats exactly, apart from ids, and the default window of checks follows its clock.
func TestStartOfTheDemoData(t *testing.T) {
	t.Parallel()
	begun := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	s := start(t, "--start="+begun.Format(time.RFC3339), "--data-dir", dir)
	var monitors []struct {
		ID          string
		LastCheckAt time.Time
	}
	s.get(t, "/v1/monitors", &monitors)
	var checks []struct{ CheckedAt time.Time }
	s.get(t, "/v1/monitors/"+monitors[0].ID+"/checks", &checks)
	if len(checks) < 50 || monitors[0].LastCheckAt.After(begun) || monitors[0].LastCheckAt.Before(begun.Add(-time.Hour)) {
		t.Errorf("%d checks, the last at %v", len(checks), monitors[0].LastCheckAt)
	}
	if want := "its time started at 2024-02-29T12:00:00Z"; !strings.Contains(s.Out.String(), want) {
		t.Errorf("the output lacks %q", want)
	}
	s.end(t)
	var log testkit.Buffer
	arguments := []string{"--start=2024-02-29T12:00:00Z", "--data-dir", dir, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}
	code := command.Run(t.Context(), arguments, command.Environment{Out: &log, Err: &log})
	if code != 1 || !strings.Contains(log.String(), "use an empty directory") {
		t.Errorf("with kept data: exit code %d\n%s", code, log.String())
	}
}

// What moves is visible over HTTP: metrics, checks, and an outage with its incident. A kept directory that ran ahead goes on.
func TestMovingDemo(t *testing.T) {
	t.Parallel()
	dir, config := t.TempDir(), write(t, devtest.HighLimits)
	begun := time.Now()
	s := startMoving(t, "--speed=60", "--config", config, "--data-dir", dir)
	var servers []struct{ ID, Name string }
	s.get(t, "/v1/servers", &servers)
	testkit.Eventually(t, "metric point", func() bool {
		var metrics struct{ Points []struct{ At time.Time } }
		s.get(t, "/v1/servers/"+servers[0].ID+"/metrics?range=1h", &metrics)
		return metrics.Points[len(metrics.Points)-1].At.After(begun)
	})
	testkit.Eventually(t, "check", func() bool {
		var monitors []struct{ LastCheckAt *time.Time }
		s.get(t, "/v1/monitors", &monitors)
		return monitors[0].LastCheckAt.After(begun)
	})
	var incidents struct {
		Items []struct {
			ID, Title string
			CreatedAt time.Time
		}
	}
	testkit.Eventually(t, "incident", func() bool {
		s.get(t, "/v1/incidents", &incidents)
		return strings.HasSuffix(incidents.Items[0].Title, " is down")
	})
	if newest := incidents.Items[0]; newest.CreatedAt.Before(begun.Add(3 * time.Minute)) {
		t.Errorf("%s opened at %v, %v after the start", newest.Title, newest.CreatedAt, newest.CreatedAt.Sub(begun))
	}
	if !strings.Contains(s.Out.String(), "moves 60 times as fast as time (--still stops it)\n") {
		t.Errorf("the output lacks the speed:\n%s", s.Out.String())
	}
	s.end(t)
	if strings.Contains(s.Log.String(), "part=simulation") {
		t.Errorf("events failed:\n%s", s.Log.String())
	}

	again := startMoving(t, "--config", config, "--data-dir", dir)
	testkit.Eventually(t, "welcome", func() bool { return strings.Contains(again.Out.String(), "Ctrl-C") })
	if !strings.Contains(again.Out.String(), "its time goes on from "+begun.UTC().Format("2006-01-02T")) &&
		!strings.Contains(again.Out.String(), "its time goes on from "+begun.Add(24*time.Hour).UTC().Format("2006-01-02T")) {
		t.Errorf("the output lacks the time of the data:\n%s", again.Out.String())
	}
	again.end(t)
}
