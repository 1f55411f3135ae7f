package links

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"opsgate/cmd/internal/refbackend/audit"
	"opsgate/cmd/internal/refbackend/store"
	"opsgate/cmd/internal/refbackend/store/query"
)

const (
	// maxBody bounds the body of a POST, which is not used. The one-click request has 26 bytes, or some more as multipart/form-data.
	maxBody = 4 << 10
	// maxTime bounds the use of the database, which another process may have locked.
	maxTime = 5 * time.Second
)

// Options are the dependencies of the pages.
type Options struct {
	Store *store.Store
	// Clock is that of the backend; nil means time.Now.
	Clock func() time.Time
	// Logger receives failures; nil discards them.
	Logger *slog.Logger
}

type pages struct {
	store  *store.Store
	clock  func() time.Time
	logger *slog.Logger
}

// New returns a handler for GET and POST on /subscriptions/{token}/confirm and /subscriptions/{token}/unsubscribe. The caller's server
// bounds the time of reading and writing. Audit entries have the address of the connection: behind a proxy, that of the proxy.
func New(o Options) http.Handler {
	p := &pages{store: o.Store, clock: o.Clock, logger: o.Logger}
	if p.clock == nil {
		p.clock = time.Now
	}
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /subscriptions/{token}/confirm", p.serve(p.showConfirm))
	mux.HandleFunc("POST /subscriptions/{token}/confirm", p.serve(p.confirm))
	mux.HandleFunc("GET /subscriptions/{token}/unsubscribe", p.serve(p.showUnsubscribe))
	mux.HandleFunc("POST /subscriptions/{token}/unsubscribe", p.serve(p.unsubscribe))
	return secured(mux)
}

// serve returns a handler that writes the page of an action, or a page about its failure.
func (p *pages) serve(action func(context.Context, *http.Request) (page, error)) http.HandlerFunc {
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
		result, err := action(ctx, r)
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

// errUnknown means that no email subscriber has the token.
var errUnknown = errors.New("no such subscription")

// A subscription is what the pages show of a subscriber.
type subscription struct {
	query.Subscriber
	page string
}

func find(ctx context.Context, q *query.Queries, r *http.Request) (subscription, error) {
	row, err := q.GetSubscriberByLinkToken(ctx, r.PathValue("token"))
	if errors.Is(err, sql.ErrNoRows) {
		return subscription{}, errUnknown
	}
	if err != nil {
		return subscription{}, fmt.Errorf("look up the subscriber: %w", err)
	}
	return subscription{Subscriber: row.Subscriber, page: row.PageName}, nil
}

func (p *pages) read(ctx context.Context, r *http.Request) (s subscription, err error) {
	err = p.store.Read(ctx, func(q *query.Queries) error {
		s, err = find(ctx, q, r)
		return err
	})
	return s, err
}

// change executes one change of a subscriber, with its audit entry.
func (p *pages) change(
	ctx context.Context, r *http.Request, kind string, do func(q *query.Queries, s subscription, now int64) (changed bool, err error),
) (s subscription, err error) {
	err = p.store.Write(ctx, func(q *query.Queries) error {
		if s, err = find(ctx, q, r); err != nil {
			return err
		}
		now, err := audit.TimeOfWrite(ctx, q, p.clock, s.TeamID)
		if err != nil {
			return err
		}
		changed, err := do(q, s, now)
		if err != nil || !changed {
			return err
		}
		entry := audit.Action{
			Team: s.TeamID, Kind: kind, ResourceID: s.ID, Actor: audit.ServiceActor, IPAddress: clientAddress(r), At: now,
		}
		return entry.Record(ctx, q)
	})
	return s, err
}

func (p *pages) showConfirm(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.read(ctx, r)
	switch {
	case err != nil:
		return page{}, err
	case s.ConfirmedAt != nil:
		return s.confirmed(), nil
	}
	return page{
		Page: s.page, Heading: "Confirm your subscription", Button: "Confirm",
		Text: fmt.Sprintf("Send notifications of %s to %s?", s.page, masked(s.Address)),
	}, nil
}

func (p *pages) confirm(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.change(ctx, r, "subscriber.confirmed", func(q *query.Queries, s subscription, now int64) (bool, error) {
		if s.ConfirmedAt != nil {
			return false, nil
		}
		if err := q.ConfirmSubscriber(ctx, query.ConfirmSubscriberParams{ConfirmedAt: &now, ID: s.ID}); err != nil {
			return false, fmt.Errorf("confirm the subscriber: %w", err)
		}
		return true, nil
	})
	if err != nil {
		return page{}, err
	}
	return s.confirmed(), nil
}

func (p *pages) showUnsubscribe(ctx context.Context, r *http.Request) (page, error) {
	s, err := p.read(ctx, r)
	if err != nil {
		return page{}, err
	}
	return page{
		Page: s.page, Heading: "Unsubscribe", Button: "Unsubscribe",
		Text: fmt.Sprintf("Send no further notifications of %s to %s?", s.page, masked(s.Address)),
	}, nil
}

func (p *pages) unsubscribe(ctx context.Context, r *http.Request) (page, error) {
	_, err := p.change(ctx, r, audit.SubscriberRemoved, func(q *query.Queries, s subscription, _ int64) (bool, error) {
		if _, err := q.DeleteSubscriber(ctx, s.ID); err != nil {
			return false, fmt.Errorf("delete the subscriber: %w", err)
		}
		return true, nil
	})
	if err != nil && !errors.Is(err, errUnknown) {
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

// clientAddress returns the IP address of the connection.
func clientAddress(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // not TCP
		return audit.ServiceAddress
	}
	return peer.Addr().Unmap().WithZone("").String()
}
