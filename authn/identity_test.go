package authn_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// identity is an in-memory identity service for synctest. It obeys the caller's context like the
// real client.
type identity struct {
	mu          sync.Mutex
	tokens      map[[32]byte]*identityv1.ResolveTokenResponse
	revoked     map[[32]byte]map[string]string // metadata of the ErrorInfo
	failure     error                          // of every lookup; nil for none
	gate        chan struct{}                  // every lookup waits for it; nil for none
	delay       time.Duration                  // of every lookup
	lookupCount int

	watches chan *watch // opened streams; nil: streams cannot be opened
	cut     atomic.Bool // streams cannot be opened
}

func newIdentity() *identity {
	return &identity{
		tokens:  make(map[[32]byte]*identityv1.ResolveTokenResponse),
		revoked: make(map[[32]byte]map[string]string),
		watches: make(chan *watch, 100),
	}
}

const teamID = "5d6f0f8a-2f5b-4b52-8a41-8f8b4a1f7c01"

// idOf returns the id of a token.
func idOf(token string) string {
	sum := sha256.Sum256([]byte("id of " + token))
	return uuid.UUID(sum[:16]).String()
}

// issue adds the live token with the number, and returns it.
func (i *identity) issue(number byte) string {
	token := mint(number)
	i.add(token)
	return token
}

// add adds a live token of the team.
func (i *identity) add(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens[authn.Hash(token)] = &identityv1.ResolveTokenResponse{
		TokenId: idOf(token), TeamId: teamID,
		Scopes: []string{"servers:read", "incidents:write", "a-scope-of-tomorrow"}, Plan: identityv1.Plan_PLAN_AI,
	}
}

func (i *identity) revoke(token string) {
	i.revokeWith(token, map[string]string{"token_id": idOf(token)})
}

func (i *identity) revokeWith(token string, metadata map[string]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.tokens, authn.Hash(token))
	i.revoked[authn.Hash(token)] = metadata
}

// fail sets the error of all lookups; nil for none.
func (i *identity) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failure = err
}

// hold delays the responses of lookups, but not their outcome, until release is called.
func (i *identity) hold() (release func()) {
	gate := make(chan struct{})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gate = gate
	return func() {
		i.endHold()
		close(gate)
	}
}

// endHold ends the delay of new lookups.
func (i *identity) endHold() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gate = nil
}

// lookups returns the number of lookups.
func (i *identity) lookups() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lookupCount
}

func (i *identity) mustHaveLookups(t *testing.T, want int) {
	t.Helper()
	if n := i.lookups(); n != want {
		t.Errorf("%d lookups, want %d", n, want)
	}
}

func (i *identity) ResolveToken(
	ctx context.Context, request *identityv1.ResolveTokenRequest, _ ...grpc.CallOption,
) (*identityv1.ResolveTokenResponse, error) {
	response, gate, err := i.resolve(request)
	<-time.After(i.delay)
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return response, err
}

func (i *identity) resolve(
	request *identityv1.ResolveTokenRequest,
) (*identityv1.ResolveTokenResponse, chan struct{}, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lookupCount++
	if i.failure != nil {
		return nil, i.gate, i.failure
	}
	hash := [32]byte(request.GetTokenSha256())
	if response, ok := i.tokens[hash]; ok {
		return response, i.gate, nil
	}
	info := &errdetails.ErrorInfo{Reason: "TOKEN_UNKNOWN"}
	if metadata, revoked := i.revoked[hash]; revoked {
		info = &errdetails.ErrorInfo{Reason: "TOKEN_REVOKED", Metadata: metadata}
	}
	refusal, err := status.New(codes.NotFound, "no such token").WithDetails(info)
	if err != nil {
		return nil, i.gate, err
	}
	return nil, i.gate, refusal.Err()
}

func (i *identity) WatchRevocations(
	ctx context.Context, request *identityv1.WatchRevocationsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[identityv1.WatchRevocationsResponse], error) {
	if i.watches == nil || i.cut.Load() {
		return nil, errUnavailable
	}
	w := &watch{ctx: ctx, after: request.GetAfterPosition(), events: make(chan event, 100)}
	i.watches <- w
	return w, nil
}

var errUnavailable = status.Error(codes.Unavailable, "connection refused")

// A watch is both ends of a revocation stream.
type watch struct {
	grpc.ClientStream

	ctx    context.Context
	after  string
	events chan event
}

type event struct {
	message *identityv1.WatchRevocationsResponse
	err     error
}

func (w *watch) Recv() (*identityv1.WatchRevocationsResponse, error) {
	select {
	case e := <-w.events:
		return e.message, e.err
	case <-w.ctx.Done():
		return nil, status.FromContextError(w.ctx.Err()).Err()
	}
}

func (w *watch) heartbeat(position string) {
	w.events <- event{message: &identityv1.WatchRevocationsResponse{Position: position}}
}

func (w *watch) revocation(position, token string) {
	hash := authn.Hash(token)
	w.events <- event{message: &identityv1.WatchRevocationsResponse{
		Position:   position,
		Revocation: &identityv1.Revocation{TokenId: idOf(token), TokenSha256: hash[:], RevokedAt: timestamppb.Now()},
	}}
}

func (w *watch) fail(err error) { w.events <- event{err: err} }

// expire ends the stream because its position is too old, which invalidates all tokens.
func (w *watch) expire() { w.fail(status.Error(codes.OutOfRange, "position expired")) }

// newAuthenticator returns an Authenticator of the service with default options and the changes.
func newAuthenticator(t testing.TB, service identityv1.IdentityServiceClient, change ...func(*authn.Options)) *authn.Authenticator {
	t.Helper()
	o := authn.Options{Format: format, Identity: service}
	for _, c := range change {
		c(&o)
	}
	a, err := authn.New(o)
	testkit.Must(t, err)
	return a
}

// accepted fails the test unless the token is accepted.
func accepted(t testing.TB, a *authn.Authenticator, token string) *authn.Principal {
	t.Helper()
	p, err := a.Authenticate(t.Context(), token, office)
	if err != nil {
		t.Fatalf("Authenticate: %v, want a principal", err)
	}
	return p
}

// refused fails the test unless the token is refused with the error.
func refused(t testing.TB, a *authn.Authenticator, token string, want error) {
	t.Helper()
	p, err := a.Authenticate(t.Context(), token, office)
	if p != nil || !errors.Is(err, want) {
		t.Fatalf("Authenticate = %v, %v; want %v", p, err, want)
	}
}

// metric returns the value of a counter or gauge by its label values.
func metric(t testing.TB, gatherer prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && slices.Equal(labelValues(m), labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%q", name, labels)
	return 0
}

func labelValues(m *dto.Metric) []string {
	var values []string
	for _, l := range m.GetLabel() {
		values = append(values, l.GetValue())
	}
	return values
}

// An at is a Source with a fixed address.
type at netip.Addr

// ClientAddr implements [authn.Source].
func (a at) ClientAddr() netip.Addr { return netip.Addr(a) }

// from returns the source with the address.
func from(address string) authn.Source { return at(netip.MustParseAddr(address)) }

// office is the default source of requests.
var office = from("192.0.2.1")
