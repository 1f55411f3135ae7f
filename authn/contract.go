package authn

import (
	"log/slog"
	"sync"
	"time"
)

// breachesApart is how far apart the log's lines of breaches are at least. Where only some tokens have invalid answers, good and invalid
// ones come in turn.
const breachesApart = time.Minute

// A contractState records whether the identity service's answers keep the contract. It is safe for concurrent use.
type contractState struct {
	logger *slog.Logger

	mu     sync.Mutex
	breach error         // what is wrong with the last invalid answer since the last good one; nil for none
	since  time.Duration // the first of these answers
	logged bool          // the log has a line of this breach
	quiet  time.Duration // until then, it gets no line of another
}

// note records an answer: a good one, or what is wrong with it.
func (c *contractState) note(now time.Duration, breach error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if breach != nil && c.breach == nil {
		c.since = now
	}
	c.breach = breach
	switch {
	case breach == nil && c.logged:
		c.logged = false
		c.logger.Info("identity service keeps the contract again")
	case breach != nil && !c.logged && now >= c.quiet:
		c.logged, c.quiet = true, now+breachesApart
		c.logger.Warn("identity service breaks the contract; tokens that are not cached get 500", slog.Any("error", breach))
	}
}

// ContractError returns for how long the identity service's answers have broken the contract, and in which way, an [ErrContract] without
// anything of an answer. The error is nil if the last answer that told of a token was good.
func (a *Authenticator) ContractError() (time.Duration, error) {
	c := &a.contract
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.breach == nil {
		return 0, nil
	}
	return a.now() - c.since, c.breach
}
