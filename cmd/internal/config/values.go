package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A scalar is a value that is written as one word. Its error says what the value may be, and goes on "is …".
type scalar interface {
	parse(text string) error
}

var (
	_ scalar = (*Duration)(nil)
	_ scalar = (*Bytes)(nil)
	_ scalar = (*Network)(nil)
)

// A Duration is written as Go writes it: 250ms, 30s, 1h30m.
type Duration time.Duration

func (d *Duration) parse(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("is not a duration such as 250ms, 30s or 1h30m")
	}
	*d = Duration(parsed)
	return nil
}

// String returns the duration without parts that are zero: 1h, not 1h0m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Units of Bytes.
const (
	kibi Bytes = 1 << 10
	mebi Bytes = 1 << 20
)

// Bytes is a size: a number of bytes, or of KiB or MiB with that unit.
type Bytes int64

func (b *Bytes) parse(text string) error {
	number, unit := text, Bytes(1)
	for suffix, size := range map[string]Bytes{"KiB": kibi, "MiB": mebi} {
		if without, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = without, size
		}
	}
	parsed, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return errors.New("is not a size such as 4096, 128KiB or 8MiB")
	}
	*b = Bytes(parsed) * unit
	return nil
}

// String returns the size in the largest unit that needs no fraction.
func (b Bytes) String() string {
	switch {
	case b >= mebi && b%mebi == 0:
		return strconv.FormatInt(int64(b/mebi), 10) + "MiB"
	case b >= kibi && b%kibi == 0:
		return strconv.FormatInt(int64(b/kibi), 10) + "KiB"
	}
	return strconv.FormatInt(int64(b), 10)
}

// A Network is a range of addresses: 10.0.0.0/8.
type Network struct{ netip.Prefix }

func (n *Network) parse(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return errors.New("is not a network such as 10.0.0.0/8 or 2001:db8::/32")
	}
	if prefix != prefix.Masked() {
		return fmt.Errorf("has bits beyond its length; the network is %s", prefix.Masked())
	}
	n.Prefix = prefix
	return nil
}

// A choice is a value that is one of a few words.
type choice interface {
	choices() []string
}

// A Store is where budgets are counted.
type Store string

// The stores that exist.
const (
	StoreMemory Store = "memory"
	StoreRedis  Store = "redis"
)

func (Store) choices() []string { return []string{string(StoreMemory), string(StoreRedis)} }

// A Level is the importance of a log line.
type Level string

// The levels of log lines.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// Slog returns the level as the logger knows it.
func (l Level) Slog() slog.Level {
	switch l {
	case LevelDebug:
		return slog.LevelDebug
	case LevelWarn:
		return slog.LevelWarn
	case LevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// A Format is how log lines look.
type Format string

// The formats of log lines.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

func (Format) choices() []string { return []string{string(FormatJSON), string(FormatText)} }
