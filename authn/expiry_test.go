package authn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// expiring issues the token with the number, which expires after the time.
func (i *identity) expiring(number byte, after time.Duration) string {
	token := i.issue(number)
	i.answer(token, &identityv1.ResolveTokenResponse{
		TokenId: idOf(token), TeamId: teamID, ExpiresAt: timestamppb.New(time.Now().Add(after)),
	})
	return token
}

// Each case makes a token that expires after a time, with the service in the state of the case from
// the first use on.
func TestATokenIsRefusedFromFiveSecondsAfterItsExpiry(t *testing.T) {
	for name, test := range map[string]struct {
		after  time.Duration
		change func(*identity)
	}{
		"fresh":                              {3 * time.Second, func(*identity) {}},
		"looked up again":                    {2 * time.Minute, func(*identity) {}},
		"stale while identity is away":       {5 * time.Minute, func(i *identity) { i.fail(errUnavailable) }},
		"stale after invalid responses":      {5 * time.Minute, func(i *identity) { i.answer(mint(1), nil) }},
		"expired when it is first looked up": {-time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newIdentity()
				a := newAuthenticator(t, service)
				token := service.expiring(1, test.after)
				if test.change != nil {
					end := time.Now().Add(test.after + 5*time.Second)
					accepted(t, a, token)
					test.change(service)
					for time.Until(end) > 10*time.Second {
						time.Sleep(9 * time.Second) // in use
						accepted(t, a, token)
					}
					time.Sleep(time.Until(end) - 1)
					accepted(t, a, token)
					time.Sleep(time.Nanosecond)
				}
				refused(t, a, token, authn.ErrExpired)
				refused(t, a, token, authn.ErrInvalidToken)
				if record, _ := a.CachedToken(idOf(token)); record.Freshness != "expired" || record.Refused == nil || record.Identity().TeamID != teamID {
					t.Errorf("cached: %+v", record)
				}
			})
		})
	}
}

func TestALaterExpiryIsAdoptedWithTheNextLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.expiring(1, 3*time.Second)
		accepted(t, a, token)
		time.Sleep(10 * time.Second)
		refused(t, a, token, authn.ErrExpired)
		service.expiring(1, time.Hour)
		time.Sleep(20 * time.Second)
		if p := accepted(t, a, token); time.Until(p.ExpiresAt) < 50*time.Minute {
			t.Errorf("expires at %v", p.ExpiresAt)
		}
	})
}
