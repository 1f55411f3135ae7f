package config

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestValuesRoundTrip(t *testing.T) {
	for _, test := range []struct {
		value scalar
		texts []string
	}{
		{new(Duration), []string{"0s", "10ms", "1.5s", "2m", "1h", "1h30m", "1h0m5s", "720h"}},
		{new(Bytes), []string{"0", "100", "1KiB", "1500", "128KiB", "8MiB", "1025KiB", "3GiB", "9223372036854775807"}},
		{new(Network), []string{"10.0.0.0/8", "2001:db8::/32"}},
		{new(Percent), []string{"0%", "0.0001%", "0.25%", "1%", "99.9%", "100%"}},
		{new(Time), []string{"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.25Z"}},
	} {
		for _, text := range test.texts {
			if err := test.value.parse(text); err != nil || fmt.Sprint(test.value) != text {
				t.Errorf("%s: got %s, %v", text, test.value, err)
			}
		}
	}
}

func TestANumberMayBeAuto(t *testing.T) {
	for text, want := range map[string]Number{"auto": Auto, "0": 0, "1": 1, "1000000": 1_000_000} {
		var n Number
		if err := n.parse(text); err != nil || n != want || n.String() != text {
			t.Errorf("%s: got %s, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "01", "1.0", "Auto", "several"} {
		if err := new(Number).parse(text); err == nil || !strings.HasPrefix(err.Error(), "must be auto or a number, not ") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	for _, test := range []struct {
		value scalar
		texts []string
	}{
		{new(Bytes), []string{"", "MiB", "1TiB", "1.5MiB", "9223372036854775808", "9007199254740993KiB", "8589934592GiB"}},
		{new(Percent), []string{"", "1", "%", ".5%", "-1%", "1.%", "0.00001%", "1e1%", "1000%0"}},
		{new(Time), []string{"", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-02-30T12:00:00Z", "tomorrow"}},
	} {
		for _, text := range test.texts {
			if err := test.value.parse(text); err == nil || !strings.HasPrefix(err.Error(), "is not ") {
				t.Errorf("%T %q: got %v", test.value, text, err)
			}
		}
	}
}

func TestAPercentIsAFraction(t *testing.T) {
	if got := Percent(2500).Fraction(); got != 0.0025 {
		t.Errorf("got %v", got)
	}
}

func TestLevelsMatchSlog(t *testing.T) {
	for level, want := range map[Level]slog.Level{
		LevelDebug: slog.LevelDebug, LevelInfo: slog.LevelInfo, LevelWarn: slog.LevelWarn, LevelError: slog.LevelError,
	} {
		if got := level.Slog(); got != want {
			t.Errorf("%s: got %s", level, got)
		}
	}
}

func TestLimitsAreNamedAfterTheirInterval(t *testing.T) {
	for per, want := range map[time.Duration]string{
		time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day",
		10 * time.Second: "10s", 90 * time.Minute: "1h30m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := limitName(Duration(per)); got != want || !className.MatchString(got) {
			t.Errorf("%s: got %q, want %q", per, got, want)
		}
	}
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		":8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080",
		"127.0.0.2:8080": "127.0.0.2:8080", "[::1]:8080": "[::1]:8080", "gateway.internal:80": "gateway.internal:80", "nonsense": "nonsense",
	} {
		if got := Reachable(listen); got != want {
			t.Errorf("%s: got %s, want %s", listen, got, want)
		}
	}
}
