package authn

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	identityv1 "opsgate/proto/ops/identity/v1"
)

// Options are what an [Authenticator] is made of. Format and Identity are required; a zero elsewhere stands for the default.
type Options struct {
	// Format is how live tokens look.
	Format TokenFormat
	// Identity is the service that knows the tokens. Calls for known tokens that somebody waits for are not bounded here: it
	// may refuse those that are too many, and they are used on trust as in an outage.
	Identity identityv1.IdentityServiceClient
	// Settings are the time-outs and bounds to begin with.
	Settings
	// MaxEntries bounds the tokens remembered; 100,000 by default, some 40 MB. An eighth as many refusals are remembered besides.
	MaxEntries int
	// Clock is the time; [time.Now] by default.
	Clock func() time.Time
	// Logger gets a line when the identity service or the revocation stream goes away or comes back, and when look-ups begin or
	// cease to be shed; discarded by default.
	Logger *slog.Logger
	// Registerer gets the metrics; by default they go nowhere.
	Registerer prometheus.Registerer
}

// Settings are what may change while an [Authenticator] is in use. A zero stands for the default.
type Settings struct {
	// FreshFor is how long a confirmed token is served without asking again; 30 s by default. It bounds how long a token
	// revoked while the revocation stream is cut goes on being accepted.
	FreshFor time.Duration
	// UnwatchedFor is FreshFor for a token that was confirmed while the revocation stream was cut; 10 s by default, and never
	// more than FreshFor.
	UnwatchedFor time.Duration
	// StaleFor is how long after it was last confirmed a token is served while the identity service cannot answer; 10 min
	// by default, at least FreshFor.
	StaleFor time.Duration
	// NegativeFor is how long a refusal is remembered; 5 s by default. A token is usable at most this long after it is
	// made, if somebody tried it before.
	NegativeFor time.Duration
	// LookUpTimeout bounds one call to the identity service; 2 s by default. It is not the callers' deadline, as a call is
	// shared by all who wait for it.
	LookUpTimeout time.Duration
	// MaxLookUps bounds the look-ups in flight of tokens that were not confirmed here; 64 by default. Further ones are queued, and begin
	// in turn by source network. 8 requests may wait for each, half of that number from one network; one more is refused with
	// [ErrBusy], and so is one whose turn does not come within LookUpTimeout. Of tokens that were confirmed, as many may be looked up
	// in the background, before a request has to wait for it.
	MaxLookUps int
}

func (s Settings) withDefaults() Settings {
	s.FreshFor = orDefault(s.FreshFor, 30*time.Second)
	s.UnwatchedFor = orDefault(s.UnwatchedFor, 10*time.Second)
	s.StaleFor = orDefault(s.StaleFor, 10*time.Minute)
	s.NegativeFor = orDefault(s.NegativeFor, 5*time.Second)
	s.LookUpTimeout = orDefault(s.LookUpTimeout, 2*time.Second)
	s.MaxLookUps = orDefault(s.MaxLookUps, 64)
	return s
}

func (s Settings) validate() error {
	switch {
	case s.FreshFor < 0 || s.UnwatchedFor < 0 || s.NegativeFor < 0 || s.LookUpTimeout < 0:
		return errors.New("a duration is negative")
	case s.MaxLookUps < 0:
		return fmt.Errorf("%d look-ups at once", s.MaxLookUps)
	case s.StaleFor < s.FreshFor:
		return fmt.Errorf("stale for %v, which is less than fresh for %v", s.StaleFor, s.FreshFor)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Settings = o.Settings.withDefaults()
	o.MaxEntries = orDefault(o.MaxEntries, 100_000)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}

func orDefault[T time.Duration | int](value, byDefault T) T {
	if value == 0 {
		return byDefault
	}
	return value
}

func (o Options) validate() error {
	if err := o.Format.Validate(); err != nil {
		return err
	}
	switch {
	case o.Identity == nil:
		return errors.New("no identity service")
	case o.MaxEntries < 0:
		return fmt.Errorf("room for %d tokens", o.MaxEntries)
	}
	return o.Settings.validate()
}
