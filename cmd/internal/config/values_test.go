package config

import (
	"log/slog"
	"testing"
	"time"
)

func TestValuesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"0s", "10ms", "1.5s", "2m", "1h", "1h30m", "1h0m5s", "720h"} {
		var d Duration
		if err := d.parse(text); err != nil || d.String() != text {
			t.Errorf("%s: got %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"0", "100", "1KiB", "1500", "128KiB", "8MiB", "1025KiB"} {
		var b Bytes
		if err := b.parse(text); err != nil || b.String() != text {
			t.Errorf("%s: got %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"10.0.0.0/8", "2001:db8::/32"} {
		var n Network
		if err := n.parse(text); err != nil || n.String() != text {
			t.Errorf("%s: got %s, %v", text, n, err)
		}
	}
}

func TestLevelsAreThoseOfTheLogger(t *testing.T) {
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
		if got := limitName(Duration(per)); got != want || !isLimitName(got) {
			t.Errorf("%s: got %q, want %q", per, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"listen", "listen", 0}, {"listn", "listen", 1}, {"lisetn", "listen", 2}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.a, test.b, got, test.want)
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
