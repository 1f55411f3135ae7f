package authn_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/authn"
)

// idsOf returns the ids of a revoked token's error.
func idsOf(t *testing.T, a *authn.Authenticator, token string) authn.Identity {
	t.Helper()
	_, err := a.Authenticate(t.Context(), token, office)
	revoked, ok := errors.AsType[*authn.RefusedError](err)
	if !ok || !errors.Is(err, authn.ErrRevoked) || !errors.Is(err, authn.ErrInvalidToken) || err.Error() != authn.ErrRevoked.Error() {
		t.Fatalf("got %v", err)
	}
	return revoked.Identity
}

// mustBeCached checks that the token is cached as revoked, with the ids.
func mustBeCached(t *testing.T, a *authn.Authenticator, want authn.Identity) {
	t.Helper()
	record, ok := a.CachedToken(want.TokenID)
	if !ok || record.Refused == nil || record.Identity() != want || record.Principal != nil {
		t.Errorf("cached: %+v, %t; want %+v", record, ok, want)
	}
}

func TestTheRefusalOfARevokedTokenHasItsIDs(t *testing.T) {
	token := mint(1)
	for name, test := range map[string]struct {
		metadata map[string]string
		used     bool // before it was revoked
		want     authn.Identity
	}{
		"id from the service":              {map[string]string{"token_id": idOf(token)}, false, authn.Identity{TokenID: idOf(token)}},
		"in upper case":                    {map[string]string{"token_id": strings.ToUpper(idOf(token))}, false, authn.Identity{TokenID: idOf(token)}},
		"no id":                            {nil, false, authn.Identity{}},
		"id is not a UUID":                 {map[string]string{"token_id": token}, false, authn.Identity{}},
		"used before, id from the service": {map[string]string{"token_id": idOf(token)}, true, authn.Identity{TokenID: idOf(token), TeamID: teamID}},
		"used before, no id":               {nil, true, authn.Identity{TokenID: idOf(token), TeamID: teamID}},
		"used before, id is not a UUID":    {map[string]string{"token_id": token}, true, authn.Identity{TokenID: idOf(token), TeamID: teamID}},
		"used before, id in another key":   {map[string]string{"id": "x"}, true, authn.Identity{TokenID: idOf(token), TeamID: teamID}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newIdentity()
				a := newAuthenticator(t, service)
				if test.used {
					service.add(token)
					accepted(t, a, token)
					time.Sleep(time.Minute)
				}
				service.revokeWith(token, test.metadata)
				for range 2 { // by a lookup and from the cache
					if got := idsOf(t, a, token); got != test.want {
						t.Errorf("got %+v, want %+v", got, test.want)
					}
				}
				if test.want.TokenID != "" {
					mustBeCached(t, a, test.want)
				} else if _, ok := a.CachedToken(""); ok {
					t.Error("a token without a known id is found")
				}
			})
		})
	}
}

// A revocation is final: one that a lookup finds is cached as long as one from the stream, and
// outlasts an outage.
func TestARevocationFoundByALookupIsCachedForStaleFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := mint(1)
		service.revoke(token)
		want := authn.Identity{TokenID: idOf(token)}
		idsOf(t, a, token)
		service.fail(errUnavailable)
		for range 9 {
			for range 6 {
				time.Sleep(10 * time.Second)
				w.heartbeat("2")
			}
			if got := idsOf(t, a, token); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		service.mustHaveLookups(t, 1)
		w.expire()
		synctest.Wait()
		mustBeCached(t, a, want)
		service.fail(nil)
		service.add(token) // another database: all entries are invalidated, including revocations
		accepted(t, a, token)
	})
}
