package config

import (
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// DurationText returns d in Go's notation without units that are zero: 1h, 1h30m, 250ms.
// [time.ParseDuration] reads it.
func DurationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// RoundedDuration returns a measured time, rounded to one or two units: 12s, 3m20s, 25m, 5h3m,
// 2d4h. A negative d is 0s.
func RoundedDuration(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	if d >= 10*time.Minute {
		d = d.Round(time.Minute)
	}
	if d < day {
		return DurationText(d)
	}
	d = d.Round(time.Hour)
	text := strconv.Itoa(int(d/day)) + "d"
	if d%day != 0 {
		text += DurationText(d % day)
	}
	return text
}
