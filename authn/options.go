package authn

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	// negativeTTL is how long the refusal of a token that does not exist is cached. If the token is
	// created meanwhile, it is accepted after at most this time.
	negativeTTL = 5 * time.Second
	// expiryGrace is how long after its expiry a token is accepted, for differences between the
	// clocks of the gateway and of the identity service.
	expiryGrace = 5 * time.Second
	// disconnectedDivisor divides FreshFor for tokens that are confirmed while the revocation
	// stream is disconnected.
	disconnectedDivisor = 3
)

// Options are the options of [New]. Format and Identity are required; a zero elsewhere stands for
// the default.
type Options struct {
	// Format is the format of live tokens.
	Format TokenFormat
	// Identity is the client of the identity service. This package does not limit lookups of known
	// tokens for which a request waits. If the client limits them, a rejected lookup counts as an
	// outage, and the cached token is used.
	Identity identityv1.IdentityServiceClient
	// Settings are the initial settings; [Authenticator.Apply] replaces them.
	Settings
	// MaxEntries is the maximum number of cached tokens; 100,000 by default, some 48 MB. An eighth
	// as many refusals are cached in addition.
	MaxEntries int
	// Clock returns the time; [time.Now] by default.
	Clock func() time.Time
	// Logger logs when the identity service or the revocation stream becomes unavailable or
	// available again, and when lookups are shed; discarded by default.
	Logger *slog.Logger
	// Registerer registers the metrics; by default they are not exposed.
	Registerer prometheus.Registerer
}

// Settings can be changed at any time; see [Authenticator.Apply]. A zero stands for the default.
type Settings struct {
	// FreshFor is how long a confirmed token is accepted without another lookup; 30 s by default.
	// While the revocation stream is disconnected, it limits how long a revoked token is accepted;
	// a token that is confirmed meanwhile is accepted for a third of it.
	FreshFor time.Duration
	// StaleFor is how long after its last confirmation a token is accepted while the identity
	// service is unavailable; 10 min by default, at least FreshFor.
	StaleFor time.Duration
	// LookupTimeout is the timeout of a call to the identity service; 2 s by default. The call does
	// not end at the deadline of a request, as several requests share it, but the request's wait
	// does.
	LookupTimeout time.Duration
	// MaxLookups is the maximum number of lookups of unknown tokens in flight; 64 by default.
	// Further lookups are queued by source network. At most 8 × MaxLookups requests wait, at most
	// half of them from one network. Further requests fail with [ErrBusy], and so do requests whose
	// lookup does not start within LookupTimeout. It is also the maximum number of refreshes of
	// known tokens in flight.
	MaxLookups int
}

func (s Settings) withDefaults() Settings {
	s.FreshFor = cmp.Or(s.FreshFor, 30*time.Second)
	s.StaleFor = cmp.Or(s.StaleFor, 10*time.Minute)
	s.LookupTimeout = cmp.Or(s.LookupTimeout, 2*time.Second)
	s.MaxLookups = cmp.Or(s.MaxLookups, 64)
	return s
}

// Validate returns an error if the settings cannot be applied.
func (s Settings) Validate() error {
	s = s.withDefaults()
	switch {
	case s.FreshFor < 0 || s.LookupTimeout < 0:
		return errors.New("a duration is less than 0")
	case s.MaxLookups < 0:
		return fmt.Errorf("maximum number of lookups is %d, less than 0", s.MaxLookups)
	case s.StaleFor < s.FreshFor:
		return fmt.Errorf("StaleFor is %v, less than FreshFor, %v", s.StaleFor, s.FreshFor)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxEntries = cmp.Or(o.MaxEntries, 100_000)
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

func (o Options) validate() error {
	if err := o.Format.Validate(); err != nil {
		return err
	}
	switch {
	case o.Identity == nil:
		return errors.New("no identity service")
	case o.MaxEntries < 0:
		return fmt.Errorf("maximum number of cached tokens is %d, less than 0", o.MaxEntries)
	}
	return o.Settings.Validate()
}
