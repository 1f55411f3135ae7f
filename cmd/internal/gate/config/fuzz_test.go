package config

import (
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/filereader"
	"opsgate/internal/testkit"
)

// FuzzDecode checks that the decoder does not panic, that every problem has an origin, and that
// documents that the YAML library refuses are refused.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		testkit.Must(f, err)
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c := Default()
		d := &decoder{source: "fuzz.yaml", inFile: true, origins: make(map[string]origin), files: new(filereader.Reader)}
		d.file(&c, content)
		for _, p := range d.problems {
			if p.Text == "" || p.Where == "" {
				t.Errorf("a problem without text or origin: %+v", p)
			}
		}
		c.RateLimit.nameLimits()
		v := &validator{loaded: &Loaded{Config: c, Path: "fuzz.yaml", origins: d.origins, Reader: d.files}, refused: d.problems}
		if problems := v.validate(); len(d.problems)+len(problems) > 0 {
			return
		}
		var document any
		if err := yaml.Unmarshal(content, &document); err != nil && !strings.Contains(err.Error(), "excessive aliasing") {
			t.Errorf("accepted, but the YAML library refuses it: %v", err)
		}
	})
}

// FuzzValues checks that accepted values equal their text and round-trip.
func FuzzValues(f *testing.F) {
	for _, text := range []string{
		"30s", "1h0m0s", "-1.5ms", "", "9223372036854775807ns", "1KiB", "8GiB", "9007199254740993KiB", "-1MiB", "+5", "0x10", "1_000", "0.5%", "100%",
		"007.0001%", "2026-01-31T12:00:00+01:00", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59-12:00", "10.0.0.0/8", "2001:db8::/32", "10.0.0.1/8",
		"::ffff:10.0.0.0/104", "fe80::%eth0/64",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var duration, sameDuration Duration
		if want, err := time.ParseDuration(text); (duration.parse(text) == nil) != (err == nil) || time.Duration(duration) != want {
			t.Errorf("duration %q is read as %v", text, duration)
		}
		if err := sameDuration.parse(duration.String()); err != nil || sameDuration != duration {
			t.Errorf("duration %v is read as %v, %v", duration, sameDuration, err)
		}
		checkBytes(t, text)
		checkPercent(t, text)
		checkTime(t, text)
		var network, same Network
		if network.parse(text) == nil {
			want, err := netip.ParsePrefix(text)
			if want.Addr().Is4In6() {
				want = netip.PrefixFrom(want.Addr().Unmap(), want.Bits()-96)
			}
			if err != nil || network.Prefix != want || want.Masked() != want || same.parse(network.String()) != nil || same != network {
				t.Errorf("network %q is read as %v, and that as %v", text, network, same)
			}
		}
	})
}

func checkBytes(t *testing.T, text string) {
	t.Helper()
	match := regexp.MustCompile(`^([+-]?[0-9]+)(KiB|MiB|GiB)?$`).FindStringSubmatch(text)
	var want *big.Int
	if match != nil {
		number, _ := new(big.Int).SetString(match[1], 10)
		want = number.Lsh(number, map[string]uint{"KiB": 10, "MiB": 20, "GiB": 30}[match[2]])
	}
	var size, same Bytes
	if err := size.parse(text); (err == nil) != (want != nil && want.IsInt64()) || err == nil && int64(size) != want.Int64() {
		t.Errorf("size %q is read as %d, %v", text, int64(size), err)
	}
	if err := same.parse(size.String()); err != nil || same != size {
		t.Errorf("size %v is read as %v, %v", size, same, err)
	}
}

func checkPercent(t *testing.T, text string) {
	t.Helper()
	var part, same Percent
	if part.parse(text) != nil {
		return
	}
	want, ok := new(big.Rat).SetString(text[:len(text)-1])
	if !ok || new(big.Rat).SetFrac64(int64(part), int64(percent)).Cmp(want) != 0 {
		t.Errorf("part %q is read as %v", text, part)
	}
	if err := same.parse(part.String()); err != nil || same != part {
		t.Errorf("part %v is read as %v, %v", part, same, err)
	}
}

func checkTime(t *testing.T, text string) {
	t.Helper()
	var at, same Time
	if at.parse(text) != nil || at.IsZero() {
		return
	}
	if want, err := time.Parse(time.RFC3339Nano, text); err != nil || !at.Equal(want) {
		t.Errorf("time %q is read as %v", text, at)
	}
	if year := at.Year(); year < 0 || year > 9999 {
		return // by its zone alone
	}
	if err := same.parse(at.String()); err != nil || same != at {
		t.Errorf("time %v is read as %v, %v", at, same, err)
	}
}
