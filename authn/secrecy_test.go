package authn_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

// A scenario that causes every log line.
func TestLogsAndMetricsContainNoTokensOrHashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: slog.LevelDebug}))
		registry := prometheus.NewRegistry()
		service := newIdentity()
		a, w := following(t, service, func(o *authn.Options) { o.Logger, o.Registerer = logger, registry })
		live, unknown := service.issue(1), mint(2)

		ask := func(token string) {
			_, err := a.Authenticate(t.Context(), token, office)
			fmt.Fprintln(&output, err)
		}
		malformed := live[:len(live)-1] + "!"
		for _, token := range []string{live, unknown, malformed} {
			ask(token)
		}
		service.fail(errUnavailable)
		ask(mint(3))
		service.fail(nil)
		ask(mint(3))
		w.revocation("2", live)
		synctest.Wait()
		ask(live)
		w.expire()
		(<-service.watches).heartbeat("3")
		synctest.Wait()
		families, err := registry.Gather()
		testkit.Must(t, err)
		fmt.Fprintln(&output, families)

		for _, token := range []string{live, unknown, malformed, mint(3)} {
			hash := authn.Hash(token)
			for _, secret := range []string{
				token, token[len("ops_live_"):], hex.EncodeToString(hash[:]), base64.StdEncoding.EncodeToString(hash[:]),
				string(hash[:]), fmt.Sprint(hash),
			} {
				if strings.Contains(output.String(), secret) {
					t.Errorf("output contains %q:\n%s", secret, &output)
				}
			}
		}
	})
}

// A stream that is connected again at once is not logged, however often it is cut.
func TestOnlyOutagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		withoutTime := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "error" || a.Key == "lasted" && a.Value.String() != "0s" {
				return slog.Attr{}
			}
			return a
		}
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
		service := newIdentity()
		a, w := following(t, service, func(o *authn.Options) { o.Logger = logger })
		for number := range byte(5) {
			refused(t, a, mint(number), authn.ErrNotFound)
		}
		service.fail(errUnavailable)
		for number := range byte(5) {
			refused(t, a, mint(10+number), authn.ErrUnavailable)
		}
		service.fail(nil)
		refused(t, a, mint(10), authn.ErrNotFound)
		refused(t, a, mint(11), authn.ErrNotFound)
		for range 5 {
			w.fail(errUnavailable)
			w = <-service.watches
		}
		for range 3 {
			w.heartbeat("2")
			time.Sleep(time.Second)
			w.fail(errUnavailable)
			w = <-service.watches
		}
		w.heartbeat("3")
		time.Sleep(time.Second)
		w.expire()
		(<-service.watches).heartbeat("4")
		time.Sleep(2 * time.Second)
		synctest.Wait()

		want := []string{
			`level=WARN msg="identity service is unavailable; cached tokens are accepted for a while"`,
			`level=INFO msg="identity service is available again" failures=5 lasted=0s`,
			`level=WARN msg="revocation stream is disconnected; revocations take effect late"`,
			`level=INFO msg="revocation stream is connected again" failures=5`,
			`level=WARN msg="revocations were missed; every token is looked up again"`,
		}
		if got := strings.TrimSpace(log.String()); got != strings.Join(want, "\n") {
			t.Errorf("log:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
		}
	})
}
