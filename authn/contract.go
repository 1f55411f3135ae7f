package authn

import "time"

// ContractError returns an [ErrContract] if the identity service's last response broke the
// contract, and the time since the first of the current series of invalid responses. The error
// contains nothing of the response.
func (a *Authenticator) ContractError() (time.Duration, error) {
	since, err := a.logs.breaches.Failing()
	if err == nil {
		return 0, nil
	}
	return time.Since(since), err
}
