package outagelog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/internal/outagelog"
)

var errDown = errors.New("connection refused")

// Each step is "fail", "succeed", or the time to wait.
func TestLines(t *testing.T) {
	const failed, worksAgain = `level=WARN msg=fails port=1 error="connection refused"`, `level=INFO msg="works again"`
	for name, test := range map[string]struct {
		grace, steady time.Duration
		steps         string
		want          []string
	}{
		"works":                             {steps: "succeed succeed"},
		"an outage":                         {steps: "fail 1s fail 1s succeed succeed", want: []string{failed, worksAgain + " failures=2 lasted=2s"}},
		"two outages":                       {steps: "fail succeed fail", want: []string{failed, worksAgain + " failures=1 lasted=0s", failed}},
		"an outage shorter than Grace":      {grace: time.Second, steps: "fail 999ms succeed 1m"},
		"short outages":                     {grace: time.Second, steps: "fail 999ms succeed fail 999ms succeed fail 999ms succeed 1m"},
		"an outage of Grace, one failure":   {grace: time.Second, steps: "fail 1s", want: []string{failed}},
		"the end of an outage of Grace":     {grace: time.Second, steps: "fail 3s succeed", want: []string{failed, worksAgain + " failures=1 lasted=3s"}},
		"failures less than Steady apart":   {steady: time.Minute, steps: "fail succeed 59s fail succeed 59s fail succeed 59s", want: []string{failed}},
		"a success of Steady":               {steady: time.Minute, steps: "fail 1s fail 1s succeed 1m", want: []string{failed, worksAgain + " failures=2 lasted=2s"}},
		"the end, Steady after the last":    {steady: time.Minute, steps: "fail succeed 1s fail succeed 59s 1s", want: []string{failed, worksAgain + " failures=2 lasted=1s"}},
		"Grace and Steady":                  {grace: time.Second, steady: time.Minute, steps: "fail 1s succeed 9s fail succeed 1h", want: []string{failed, worksAgain + " failures=2 lasted=10s"}},
		"an outage after one within Steady": {steady: time.Minute, steps: "fail succeed 1m fail", want: []string{failed, worksAgain + " failures=1 lasted=0s", failed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines bytes.Buffer
				log := outagelog.Log{Logger: newLogger(&lines), Failed: "fails", Recovered: "works again", Grace: test.grace, Steady: test.steady}
				for step := range strings.FieldsSeq(test.steps) {
					switch step {
					case "fail":
						log.Fail(errDown, slog.Int("port", 1))
					case "succeed":
						log.Succeed()
					default:
						wait, err := time.ParseDuration(step)
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(wait)
						synctest.Wait()
					}
				}
				if got, want := strings.TrimSpace(lines.String()), strings.Join(test.want, "\n"); got != want {
					t.Errorf("logged\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}

func TestFailingSinceTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := outagelog.Log{Logger: slog.New(slog.DiscardHandler), Steady: time.Minute}
		if since, cause := log.Failing(); !since.IsZero() || cause != nil {
			t.Errorf("before any failure: %v since %v", cause, since)
		}
		log.Fail(nil)
		log.Succeed()
		if since, cause := log.Failing(); !since.IsZero() || cause != nil {
			t.Errorf("after a success: %v since %v", cause, since)
		}
		time.Sleep(time.Second)
		began := time.Now()
		log.Fail(nil)
		time.Sleep(time.Second)
		log.Fail(errDown)
		if since, cause := log.Failing(); !since.Equal(began) || !errors.Is(cause, errDown) {
			t.Errorf("%v since %v, want %v since %v", cause, since, errDown, began)
		}
	})
}

func newLogger(lines *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
