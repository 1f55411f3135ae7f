package authn

import (
	"log/slog"
	"sync"
	"time"
)

// breachLogInterval is the minimum interval between log lines of contract breaches. Without it, responses that are alternately valid and
// invalid would cause a line for each change.
const breachLogInterval = time.Minute

// A contractState records whether the responses of the identity service conform to the contract. It is safe for concurrent use.
type contractState struct {
	logger *slog.Logger

	mu        sync.Mutex
	breach    error         // of the last response; nil if it was valid
	since     time.Duration // time of the first response in the current series of invalid ones
	logged    bool          // this series is logged
	nextLogAt time.Duration // the earliest time for the next line
}

// record records a response, with breach nil for a valid one.
func (c *contractState) record(now time.Duration, breach error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if breach != nil && c.breach == nil {
		c.since = now
	}
	c.breach = breach
	switch {
	case breach == nil && c.logged:
		c.logged = false
		c.logger.Info("identity service responses conform to the contract again")
	case breach != nil && !c.logged && now >= c.nextLogAt:
		c.logged, c.nextLogAt = true, now+breachLogInterval
		c.logger.Warn("identity service breaks the contract; tokens that are not cached get 500", slog.Any("error", breach))
	}
}

// ContractError returns an [ErrContract] if the identity service's last response broke the contract, and the time since the first of the
// current series of invalid responses. The error contains nothing of the response.
func (a *Authenticator) ContractError() (time.Duration, error) {
	c := &a.contract
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.breach == nil {
		return 0, nil
	}
	return a.now() - c.since, c.breach
}
