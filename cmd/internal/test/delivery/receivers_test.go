package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"opsgate/backendclient/testkit"
)

// An arrival is a message that a receiver has accepted.
type arrival struct {
	subscriber string // the address
	id         string // of the message
	mark       string // of the notification
	header     map[string][]string
	content    []byte // as it was sent
}

// receivers are one SMTP server and one HTTP server, which accept all messages unless a test has them fail.
type receivers struct {
	smtp     string // address
	httpPort string // on all addresses of the loopback interface

	// fail is called for each message before it is accepted, with the subscriber's address. It may block; the context ends when the sender
	// has closed the connection, or the test ends. It reports whether the message is refused for now.
	fail func(ctx context.Context, subscriber string) bool

	mu       sync.Mutex
	arrivals []arrival
}

// startReceivers runs receivers until the end of the test.
func startReceivers(t *testing.T, fail func(ctx context.Context, subscriber string) bool) *receivers {
	t.Helper()
	if fail == nil {
		fail = func(context.Context, string) bool { return false }
	}
	r := &receivers{fail: fail}
	ctx, cancel := context.WithCancel(context.Background())
	mails := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{receivers: r, ctx: ctx}, nil
	}))
	mails.Domain, mails.EnableSMTPUTF8 = "mail.example", true
	mails.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of connections of killed processes
	hooks := &http.Server{Handler: http.HandlerFunc(r.hook), BaseContext: func(net.Listener) context.Context { return ctx }}
	r.smtp = serve(t, "127.0.0.1:0", mails.Serve)
	_, r.httpPort, _ = net.SplitHostPort(serve(t, "0.0.0.0:0", hooks.Serve))
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, mails.Close())
		testkit.Must(t, hooks.Close())
	})
	return r
}

// serve serves on a free port, and returns the address.
func serve(t *testing.T, address string, run func(net.Listener) error) string {
	t.Helper()
	listener, err := net.Listen("tcp4", address)
	testkit.Must(t, err)
	go func() {
		if err := run(listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	}()
	return listener.Addr().String()
}

// marks finds the mark of a notification in the text of its update.
var marks = regexp.MustCompile(`mark-\d+-\d+`)

func (r *receivers) accept(a arrival) {
	// Soft line breaks of an email may divide a mark.
	a.mark = string(marks.Find(bytes.ReplaceAll(a.content, []byte("=\r\n"), nil)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals = append(r.arrivals, a)
}

// all returns a copy of the arrivals so far.
func (r *receivers) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...)
}

func (r *receivers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrivals)
}

func (r *receivers) hook(w http.ResponseWriter, request *http.Request) {
	subscriber := "http://" + request.Host + request.URL.Path
	body, err := io.ReadAll(request.Body)
	switch {
	case err != nil: // the sender was killed
	case r.fail(request.Context(), subscriber):
		w.WriteHeader(http.StatusInternalServerError)
	default:
		r.accept(arrival{subscriber: subscriber, id: request.Header.Get("webhook-id"), header: request.Header, content: body})
	}
}

// A mailSession is a connection of an SMTP client.
type mailSession struct {
	receivers *receivers
	ctx       context.Context
	to        string
}

// Reset implements [smtp.Session].
func (s *mailSession) Reset() {}

// Logout implements [smtp.Session].
func (s *mailSession) Logout() error { return nil }

// Mail implements [smtp.Session].
func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt implements [smtp.Session].
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

// Data implements [smtp.Session].
func (s *mailSession) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err // the sender was killed
	}
	if s.receivers.fail(s.ctx, s.to) {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again later"}
	}
	message, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return err
	}
	// Message-ID: <id@hostname of the page>
	id, _, _ := strings.Cut(strings.TrimPrefix(message.Header.Get("Message-Id"), "<"), "@")
	s.receivers.accept(arrival{subscriber: s.to, id: id, header: message.Header, content: content})
	return nil
}
