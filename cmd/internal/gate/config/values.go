package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A scalar is a value that is written as a YAML scalar. The error of parse follows the key in a
// problem.
type scalar interface {
	parse(text string) error
}

var (
	_ scalar = (*Duration)(nil)
	_ scalar = (*Bytes)(nil)
	_ scalar = (*Network)(nil)
	_ scalar = (*Percent)(nil)
	_ scalar = (*Time)(nil)
	_ scalar = (*Number)(nil)
)

// A choice is a value from a fixed set of words.
type choice interface {
	choices() []string
}

// A Duration is written as Go writes it: 250ms, 30s, 1h30m.
type Duration time.Duration

func (d *Duration) parse(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("is not a duration like 250ms, 30s or 1h30m")
	}
	*d = Duration(parsed)
	return nil
}

// String returns the duration without units that are zero: 1h, not 1h0m0s.
func (d Duration) String() string { return DurationText(time.Duration(d)) }

// Units of Bytes.
const (
	kibi Bytes = 1 << 10
	mebi Bytes = 1 << 20
	gibi Bytes = 1 << 30
)

// Bytes is a size, written as a number of bytes, or as a number with the unit KiB, MiB or GiB.
type Bytes int64

func (b *Bytes) parse(text string) error {
	number, unit := text, Bytes(1)
	for suffix, size := range map[string]Bytes{"KiB": kibi, "MiB": mebi, "GiB": gibi} {
		if without, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = without, size
		}
	}
	parsed, err := strconv.ParseInt(number, 10, 64)
	if err != nil || parsed > math.MaxInt64/int64(unit) || parsed < math.MinInt64/int64(unit) {
		return errors.New("is not a size like 4096, 128KiB or 8MiB")
	}
	*b = Bytes(parsed) * unit
	return nil
}

// UnmarshalText parses a size, for flags.
func (b *Bytes) UnmarshalText(text []byte) error { return b.parse(string(text)) }

// String returns the size in the largest unit that needs no fraction.
func (b Bytes) String() string {
	switch {
	case b >= gibi && b%gibi == 0:
		return strconv.FormatInt(int64(b/gibi), 10) + "GiB"
	case b >= mebi && b%mebi == 0:
		return strconv.FormatInt(int64(b/mebi), 10) + "MiB"
	case b >= kibi && b%kibi == 0:
		return strconv.FormatInt(int64(b/kibi), 10) + "KiB"
	}
	return strconv.FormatInt(int64(b), 10)
}

// Units of Percent.
const (
	percent Percent = 1e4
	whole           = 100 * percent
)

// Percent is a fraction in millionths: 1%, 0.5%.
type Percent int64

var percentage = regexp.MustCompile(`^([0-9]{1,3})(?:\.([0-9]{1,4}))?%$`)

func (p *Percent) parse(text string) error {
	match := percentage.FindStringSubmatch(text)
	if match == nil {
		return errors.New("is not a percentage like 1% or 0.5%, with at most four decimals")
	}
	millionths, err := strconv.ParseInt(match[1]+(match[2] + "0000")[:4], 10, 64)
	*p = Percent(millionths)
	return err
}

// String returns the fraction in percent.
func (p Percent) String() string {
	return strconv.FormatFloat(float64(p)/float64(percent), 'f', -1, 64) + "%"
}

// Fraction returns the fraction as a number from 0 to 1.
func (p Percent) Fraction() float64 { return float64(p) / float64(whole) }

// A Time is a time with its zone: 2026-01-31T12:00:00Z. The zero Time means none.
type Time struct{ time.Time }

func (t *Time) parse(text string) error {
	var parsed time.Time
	if err := parsed.UnmarshalText([]byte(text)); err != nil {
		return errors.New("is not a time with its zone, like 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00")
	}
	t.Time = parsed.UTC() // so that equal times have equal values
	return nil
}

// String returns the time in UTC, or "" for none.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// A Number is a number, or [Auto]. The tags of its field have the bounds.
type Number int

// Auto is written as auto: the gateway determines the number.
const Auto Number = -1

const autoText = "auto"

func (n *Number) parse(text string) error {
	if text == autoText {
		*n = Auto
		return nil
	}
	parsed, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(parsed) != text || parsed < 0 {
		return fmt.Errorf("must be %s or a number, not %q", autoText, text)
	}
	*n = Number(parsed)
	return nil
}

// String returns the number, or auto.
func (n Number) String() string {
	if n == Auto {
		return autoText
	}
	return strconv.Itoa(int(n))
}

// ipv4In6Bits is the length of the prefix of IPv4-mapped IPv6 addresses: ::ffff:0:0/96.
const ipv4In6Bits = 96

// A Network is a range of addresses: 10.0.0.0/8.
type Network struct{ netip.Prefix }

func (n *Network) parse(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return errors.New("is not a network like 10.0.0.0/8 or 2001:db8::/32")
	}
	if prefix != prefix.Masked() {
		return fmt.Errorf("has host bits set; the network is %s", prefix.Masked())
	}
	if addr := prefix.Addr(); addr.Is4In6() { // addresses of clients are in IPv4 form
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-ipv4In6Bits)
	}
	n.Prefix = prefix
	return nil
}

// A File is the path of a file that must exist; "" for none.
type File string

// A Secret is a value that is never printed.
type Secret struct {
	value string
	file  string // that the value was read from; "" for none
}

var (
	_ fmt.Stringer   = Secret{}
	_ fmt.GoStringer = Secret{}
	_ slog.LogValuer = Secret{}
	_ fmt.Stringer   = (*Secret)(nil)
)

const hidden = "(hidden)"

// Reveal returns the secret, or "" for none.
func (s Secret) Reveal() string { return s.value }

// String returns a placeholder, or "" for no secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for the log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
