package authn

import (
	"log/slog"
	"time"

	"opsgate/internal/outagelog"
)

const (
	// streamGrace is how long the revocation stream must be disconnected to be logged. A proxy may
	// cut any stream that lives for days.
	streamGrace = time.Second
	// steadyContract is the time without an invalid response after which the contract holds again.
	// Responses may be valid and invalid in turn.
	steadyContract = time.Minute
	// steadyLookups is the time without a rejected request after which shedding is over.
	steadyLookups = 10 * time.Second
)

// logs are what an Authenticator logs of outages.
type logs struct {
	service  outagelog.Log // of the identity service
	breaches outagelog.Log // of the contract, by the identity service
	stream   outagelog.Log // of the revocation stream
	shedding outagelog.Log // rejections of requests without a lookup
}

func (l *logs) init(logger *slog.Logger) {
	l.service.Logger, l.breaches.Logger, l.stream.Logger, l.shedding.Logger = logger, logger, logger, logger

	l.service.Failed = "identity service is unavailable; cached tokens are accepted for a while"
	l.service.Recovered = "identity service is available again"

	l.breaches.Failed = "identity service breaks the contract; tokens that are not cached get 500"
	l.breaches.Recovered = "identity service responses conform to the contract again"
	l.breaches.Steady = steadyContract

	l.stream.Failed = "revocation stream is disconnected; revocations take effect late"
	l.stream.Recovered = "revocation stream is connected again"
	l.stream.Grace = streamGrace

	l.shedding.Failed = "too many unknown tokens at once; some are rejected without a lookup"
	l.shedding.Recovered = "unknown tokens are looked up again"
	l.shedding.Steady = steadyLookups
}
