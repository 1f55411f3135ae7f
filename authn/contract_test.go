package authn_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// answer sets the response of the service for a token.
func (i *identity) answer(token string, answer *identityv1.ResolveTokenResponse) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens[authn.Hash(token)] = answer
}

func TestAResponseThatBreaksTheContractIsErrContract(t *testing.T) {
	token := mint(1)
	for name, answer := range map[string]*identityv1.ResolveTokenResponse{
		"no team":                   {TokenId: idOf(token)},
		"no token":                  {TeamId: teamID},
		"nothing":                   nil,
		"a team id that is no UUID": {TokenId: idOf(token), TeamId: "team-1"},
		"a token id with text":      {TokenId: "pq: password=hunter2", TeamId: teamID},
		"a UUID in another form":    {TokenId: idOf(token), TeamId: strings.ReplaceAll(teamID, "-", "")},
		"a UUID in braces":          {TokenId: "{" + idOf(token) + "}", TeamId: teamID},
		"a UUID as a URN":           {TokenId: "urn:uuid:" + idOf(token), TeamId: teamID},
		"a letter that is no digit": {TokenId: idOf(token), TeamId: "g" + teamID[1:]},
		"a class of 65 characters":  {TokenId: idOf(token), TeamId: teamID, LimitClass: strings.Repeat("c", 65)},
		"a class with a space":      {TokenId: idOf(token), TeamId: teamID, LimitClass: "gold hunter2"},
		"a class that is not ASCII": {TokenId: idOf(token), TeamId: teamID, LimitClass: "größer"},
		"an expiry out of range":    {TokenId: idOf(token), TeamId: teamID, ExpiresAt: &timestamppb.Timestamp{Seconds: 1 << 40}},
		"an expiry of zero":         {TokenId: idOf(token), TeamId: teamID, ExpiresAt: &timestamppb.Timestamp{}},
	} {
		t.Run(name, func(t *testing.T) {
			service, registry := newIdentity(), prometheus.NewRegistry()
			service.answer(token, answer)
			a := newAuthenticator(t, service, func(o *authn.Options) { o.Registerer = registry })
			_, err := a.Authenticate(t.Context(), token, office)
			if !errors.Is(err, authn.ErrContract) || errors.Is(err, authn.ErrUnavailable) || errors.Is(err, authn.ErrInvalidToken) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the response: %v", err)
			}
			if n := metric(t, registry, "opsgate_authn_lookups_total", "invalid"); n != 1 {
				t.Errorf("%v counted as invalid, want 1", n)
			}
			service.add(token)
			accepted(t, a, token)
		})
	}
}

// As in an outage, cached tokens are accepted for a limited time.
func TestConfirmedTokensSurviveABrokenContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		service.answer(token, &identityv1.ResolveTokenResponse{TokenId: idOf(token), TeamId: "team-1"})
		for range 18 {
			time.Sleep(31 * time.Second)
			accepted(t, a, token)
		}
		time.Sleep(time.Minute)
		refused(t, a, token, authn.ErrContract)
	})
}

func TestABrokenContractIsReportedUntilAValidResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Buffer
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		good, bad := service.issue(1), mint(2)
		service.answer(bad, &identityv1.ResolveTokenResponse{TokenId: idOf(bad), TeamId: "hunter2"})
		if _, err := a.ContractError(); err != nil {
			t.Errorf("before any response: %v", err)
		}
		refused(t, a, bad, authn.ErrContract)
		time.Sleep(7 * time.Second)
		refused(t, a, mint(3), authn.ErrNotFound) // a response without ids
		service.fail(errUnavailable)
		refused(t, a, mint(4), authn.ErrUnavailable)
		service.fail(nil)
		lasts, err := a.ContractError()
		if lasts != 7*time.Second || !errors.Is(err, authn.ErrContract) || !strings.Contains(err.Error(), "team id") {
			t.Errorf("broken for %v: %v", lasts, err)
		}
		accepted(t, a, good)
		if lasts, err := a.ContractError(); err != nil {
			t.Errorf("after a valid response: broken for %v: %v", lasts, err)
		}

		// Alternating valid and invalid responses are logged once.
		a.Apply(authn.Settings{FreshFor: time.Nanosecond})
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			refused(t, a, bad, authn.ErrContract)
			service.issue(1)
			accepted(t, a, good)
		}
		text := log.String()
		if strings.Count(text, `msg="identity service breaks the contract`) != 1 || strings.Contains(text, "conform to the contract") {
			t.Errorf("the log:\n%s", text)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if text = log.String(); strings.Count(text, "conform to the contract") != 1 {
			t.Errorf("after a minute without an invalid response, the log:\n%s", text)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("the log contains the response:\n%s", text)
		}
	})
}
