package config_test

import (
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                              "0s",
		250 * time.Millisecond:         "250ms",
		1500 * time.Millisecond:        "1.5s",
		10 * time.Second:               "10s",
		time.Minute:                    "1m",
		90 * time.Second:               "1m30s",
		10 * time.Minute:               "10m",
		time.Hour:                      "1h",
		10 * time.Hour:                 "10h",
		90 * time.Minute:               "1h30m",
		time.Hour + time.Second:        "1h0m1s",
		-(time.Hour + 30*time.Minute):  "-1h30m",
		31 * 24 * time.Hour:            "744h",
		time.Hour + 10*time.Minute + 1: "1h10m0.000000001s",
	} {
		got := config.DurationText(d)
		if got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
		if parsed, err := time.ParseDuration(got); err != nil || parsed != d {
			t.Errorf("%q is read as %v, %v", got, parsed, err)
		}
	}
}

func TestRounded(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second:                    "0s",
		400 * time.Millisecond:          "0s",
		1600 * time.Millisecond:         "2s",
		time.Minute:                     "1m",
		3*time.Minute + 20*time.Second:  "3m20s",
		25*time.Minute + 29*time.Second: "25m",
		5*time.Hour + 3*time.Minute:     "5h3m",
		day - time.Second:               "1d",
		day + 29*time.Minute:            "1d",
		2*day + 4*time.Hour:             "2d4h",
		3*day - time.Minute:             "3d",
	} {
		if got := config.RoundedDuration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
