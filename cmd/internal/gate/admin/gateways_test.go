package admin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit/redisstore"
)

func fullStatus(text string) admin.GatewayStatus {
	since := noon.Add(-time.Hour)
	s := admin.GatewayStatus{
		Host: text, AdminListen: text, Version: text, Revision: text, ConfigVersion: text, ConfigSince: &since, ConfigRefused: true,
		LimitsVersion: text, Mode: text, ModeSince: &since, Draining: true, Ready: new(bool), RPS: 1234.5, FailedRPS: 1.1, LimitedRPS: .1, Up: 3600, At: noon,
	}
	for range 20 {
		s.Breakers = append(s.Breakers, text)
	}
	return s
}

// A status is written and read, and its times are shifted to the clock of the reader.
func TestStatusIsReadAsItWasWritten(t *testing.T) {
	s := fullStatus("gate-1")
	s.Breakers = []string{"audit", "fleet"}
	heard := noon.Add(90 * time.Second)
	got, ok := admin.DecodeStatus(s.Encode(), heard)
	since := heard.Add(-time.Hour)
	s.ConfigSince, s.ModeSince = &since, &since
	if diff := cmp.Diff(s, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
}

func TestStatusFitsIntoItsBound(t *testing.T) {
	if n := len(fullStatus(strings.Repeat("x", 1000)).Encode()); n > redisstore.MaxStatus {
		t.Errorf("%d bytes", n)
	}
}

func TestStatusOfAnotherProcessIsBounded(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", "null", `{"host":1,"at":"2026-03-04T12:00:00Z"}`, `{"at":"yesterday"}`, `{"at":"2026-03-04T12:00:00Z","rps":1e999}`} {
		if got, ok := admin.DecodeStatus([]byte(text), noon); ok {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	got, ok := admin.DecodeStatus([]byte(`{"at":"2026-03-04T12:00:00Z","host":"a\u0000\u202eb\nc\ud800","rps":-1,"failed_rps":1e300,"breakers":null,`+
		`"config_since":"0000-01-01T00:00:00+23:59","mode_since":"9999-12-31T23:59:59-23:59","of a newer version":{"x":[1]}}`), noon)
	old := noon.Add(-10 * 365 * 24 * time.Hour)
	want := admin.GatewayStatus{Host: "abc", FailedRPS: 1e9, Breakers: []string{}, ConfigSince: &old, ModeSince: &noon, At: noon}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
}

func FuzzDecodeStatus(f *testing.F) {
	f.Add(fullStatus("gate-1").Encode())
	f.Add([]byte(`{"at":"0000-01-01T00:00:00+23:59","host":"\u202e","up_seconds":1e300,"breakers":["a"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := admin.DecodeStatus(data, noon)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("it cannot be shown: %v", err)
		}
		if !ok {
			return
		}
		if len(text) > 8<<10 || s.Breakers == nil || s.RPS < 0 || s.Up > 1e9 || s.ConfigSince != nil && s.ConfigSince.After(noon) {
			t.Errorf("got %s", text)
		}
		if again, ok := admin.DecodeStatus(s.Encode(), noon); !s.At.IsZero() && (!ok || again.Host != s.Host) {
			t.Errorf("%s is read as %+v", text, again)
		}
	})
}
