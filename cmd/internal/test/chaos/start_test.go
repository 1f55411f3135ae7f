package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
)

// BenchmarkStart measures the time from starting the gateway to its first response, with all dependencies unavailable, and its CPU time
// from start to exit.
func BenchmarkStart(b *testing.B) {
	unreachable := everyService("127.0.0.1:1").configuration() + "shutdown: {drain_wait: 0s}\n"
	for name, config := range map[string]string{
		"services down":           unreachable,
		"services and Redis down": unreachable + "rate_limit: {store: redis, redis: {addresses: [127.0.0.1:1]}}\n",
	} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "opsgate.yaml")
			must(b, os.WriteFile(file, []byte(config), 0o600))
			var all []time.Duration
			var processors time.Duration
			for b.Loop() {
				begun := time.Now()
				p, err := launch("opsgate", "serve", "--config="+file)
				must(b, err)
				err = firstResponse(p)
				all = append(all, time.Since(begun))
				if err := errors.Join(err, p.Stop()); err != nil {
					b.Fatalf("%v\n%s", err, p.Log.String())
				}
				processors += p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()
			}
			slices.Sort(all)
			b.ReportMetric(0, "ns/op") // would include the exit
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, "ms/median")
			b.ReportMetric(all[len(all)-1].Seconds()*1e3, "ms/slowest")
			b.ReportMetric(processors.Seconds()*1e3/float64(b.N), "cpu-ms/life")
		})
	}
}

// firstResponse waits until a gateway logs its address, and gets a response from it.
func firstResponse(p *testkit.Process) error {
	tick := time.NewTicker(time.Millisecond / 4) // the interval adds to the measured time
	defer tick.Stop()
	for range tick.C {
		_, after, serving := strings.Cut(p.Log.String(), `"msg":"serving"`)
		select {
		case <-p.Exited:
			return errors.New("it exited")
		default:
		}
		if line, _, whole := strings.Cut(after, "\n"); serving && whole {
			var at struct{ Listen string }
			if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(line, ",")), &at); err != nil {
				return err
			}
			response, err := http.Get("http://" + at.Listen + "/v1/servers")
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusUnauthorized {
				return fmt.Errorf("without a token: %s", response.Status)
			}
			return response.Body.Close()
		}
	}
	return nil
}
