package links

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

const (
	// maxBody bounds the body of a POST, which is not used. The one-click request has 26 bytes, or some more as multipart/form-data.
	maxBody = 4 << 10
	// maxTime bounds the use of the database, which another process may have locked.
	maxTime = 5 * time.Second
	// maxActions bounds the concurrent uses of the database, so that calls of teams are not queued behind those of a flood.
	maxActions = 2
)

// Options are the dependencies of the pages.
type Options struct {
	Store *store.Store
	// Clock is that of the backend; nil means time.Now.
	Clock func() time.Time
	// Logger receives failures and refusals, which clients can repeat: it must bound lines. nil discards them.
	Logger *slog.Logger
	// Proxies are the networks of proxies whose X-Forwarded-For has the address of the client.
	Proxies []netip.Prefix
	// Registerer registers the metric; nil for none.
	Registerer prometheus.Registerer
}

// Pages serve GET and POST on /subscriptions/{token}/confirm and /subscriptions/{token}/unsubscribe. They are safe for concurrent use.
type Pages struct {
	http.Handler

	store    *store.Store
	clock    func() time.Time
	logger   *slog.Logger
	proxies  []netip.Prefix
	limiter  limiter
	turns    chan struct{}
	refusals *prometheus.CounterVec
}

// New returns the pages. The caller's server bounds the time of reading and writing, and uses [Pages.Limit] if clients outside of this
// machine can connect to it.
func New(o Options) *Pages {
	p := &Pages{
		store: o.Store, clock: o.Clock, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), proxies: o.Proxies,
		limiter: limiter{full: map[netip.Prefix]time.Time{}}, turns: make(chan struct{}, maxActions), refusals: newRefusals(o.Registerer),
	}
	if p.clock == nil {
		p.clock = time.Now
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /subscriptions/{token}/confirm", p.serve(p.showConfirm))
	mux.HandleFunc("POST /subscriptions/{token}/confirm", p.serve(p.confirm))
	mux.HandleFunc("GET /subscriptions/{token}/unsubscribe", p.serve(p.showUnsubscribe))
	mux.HandleFunc("POST /subscriptions/{token}/unsubscribe", p.serve(p.unsubscribe))
	p.Handler = secured(p.limited(mux))
	return p
}

// limited refuses requests of networks that send too many.
func (p *Pages) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		network := authn.SiteOf(p.clientAddress(r))
		wait := p.limiter.admit(network, p.clock())
		if wait == 0 {
			next.ServeHTTP(w, r)
			return
		}
		p.refuse(causeRequests, network)
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		write(w, http.StatusTooManyRequests, page{
			Heading: "Please try again later", Text: "There were too many requests from your network. Nothing has changed.",
		})
	})
}

// serve returns a handler that writes the page of an action, or a page about its failure.
func (p *Pages) serve(action func(context.Context, *http.Request) (page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxTime)
		defer cancel()
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
			status := http.StatusBadRequest
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				status = http.StatusRequestEntityTooLarge
			}
			write(w, status, page{Heading: "The request is not valid", Text: "Nothing has changed."})
			return
		}
		result, err := p.inTurn(ctx, func() (page, error) { return action(ctx, r) })
		switch {
		case err == nil:
			write(w, http.StatusOK, result)
		case errors.Is(err, errUnknown):
			write(w, http.StatusNotFound, page{
				Heading: "No such subscription", Text: "The subscription has ended, or the address of this page is not complete.",
			})
		case r.Context().Err() != nil: // the client is gone, and nothing has changed
		default:
			p.logger.ErrorContext(ctx, "cannot use a link of an email", "cause", err)
			w.Header().Set("Retry-After", "60")
			write(w, http.StatusServiceUnavailable, page{Heading: "Please try again later", Text: "Nothing has changed."})
		}
	}
}

// inTurn executes an action when fewer than maxActions are in progress.
func (p *Pages) inTurn(ctx context.Context, action func() (page, error)) (page, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
		return action()
	case <-ctx.Done():
		return page{}, ctx.Err()
	}
}

// errUnknown means that no email subscriber has the token.
var errUnknown = errors.New("no such subscription")

// A subscription is what the pages show of a subscriber.
type subscription struct {
	query.Subscriber
	page string
}

func (s subscription) isConfirmed() bool { return s.ConfirmedAt != nil }

func find(ctx context.Context, q *query.Queries, r *http.Request) (subscription, error) {
	row, err := q.GetSubscriberByLinkTokenAnyTeam(ctx, r.PathValue("token"))
	if errors.Is(err, sql.ErrNoRows) {
		return subscription{}, errUnknown
	}
	if err != nil {
		return subscription{}, fmt.Errorf("look up the subscriber: %w", err)
	}
	return subscription{Subscriber: row.Subscriber, page: row.PageName}, nil
}

func (p *Pages) read(ctx context.Context, r *http.Request) (s subscription, err error) {
	err = p.store.Read(ctx, func(q *query.Queries) error {
		s, err = find(ctx, q, r)
		return err
	})
	return s, err
}

// change executes one change of a subscriber. Only a known token begins a write transaction: those of all teams wait for each other.
func (p *Pages) change(ctx context.Context, r *http.Request, do func(*query.Queries, subscription) error) error {
	if _, err := p.read(ctx, r); err != nil {
		return err
	}
	return p.store.Write(ctx, func(q *query.Queries) error {
		s, err := find(ctx, q, r)
		if err != nil {
			return err
		}
		return do(q, s)
	})
}

func (p *Pages) showConfirm(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.read(ctx, r)
	switch {
	case err != nil:
		return page{}, err
	case s.isConfirmed():
		return s.confirmed(), nil
	}
	return page{
		Page: s.page, Heading: "Confirm your subscription", Button: "Confirm",
		Text: fmt.Sprintf("Send notifications of %s to %s?", s.page, masked(s.Address)),
	}, nil
}

func (p *Pages) confirm(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.read(ctx, r)
	if err == nil && !s.isConfirmed() {
		err = p.change(ctx, r, func(q *query.Queries, s subscription) error { return p.setConfirmed(ctx, q, s, p.actor(r)) })
	}
	if err != nil {
		return page{}, err
	}
	return s.confirmed(), nil
}

// setConfirmed confirms a subscriber, with the audit entry, unless another request has.
func (p *Pages) setConfirmed(ctx context.Context, q *query.Queries, s subscription, actor audit.Actor) error {
	if s.isConfirmed() {
		return nil
	}
	now, err := audit.TimeOfWrite(ctx, q, p.clock, s.TeamID)
	if err != nil {
		return err
	}
	if err := q.ConfirmSubscriberAnyTeam(ctx, query.ConfirmSubscriberAnyTeamParams{ConfirmedAt: &now, ID: s.ID}); err != nil {
		return fmt.Errorf("confirm the subscriber: %w", err)
	}
	return actor.Action(s.TeamID, "subscriber.confirmed", s.ID, now).Record(ctx, q)
}

func (p *Pages) showUnsubscribe(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.read(ctx, r)
	if err != nil {
		return page{}, err
	}
	return page{
		Page: s.page, Heading: "Unsubscribe", Button: "Unsubscribe",
		Text: fmt.Sprintf("Send no further notifications of %s to %s?", s.page, masked(s.Address)),
	}, nil
}

func (p *Pages) unsubscribe(ctx context.Context, r *http.Request) (page, error) {
	err := p.change(ctx, r, func(q *query.Queries, s subscription) error {
		return delivery.RemoveSubscriber(ctx, q, p.clock, s.TeamID, s.ID, p.actor(r))
	})
	if err != nil && !errors.Is(err, errUnknown) { // a removed subscriber is not found
		return page{}, err
	}
	return page{Heading: "Unsubscribed", Text: "You will get no further notifications. Your address has been deleted."}, nil
}

// masked returns an address of which the first character and the domain can be read.
func masked(address string) string {
	at := strings.LastIndexByte(address, '@')
	local := strings.Trim(address[:max(at, 0)], `"`)
	return local[:min(1, len(local))] + "…" + address[max(at, 0):]
}

// actor returns the author of a request: the service, with the address of the client.
func (p *Pages) actor(r *http.Request) audit.Actor {
	actor := audit.Service()
	if addr := p.clientAddress(r); addr.IsValid() { // TCP
		actor.IPAddress = addr.String()
	}
	return actor
}
