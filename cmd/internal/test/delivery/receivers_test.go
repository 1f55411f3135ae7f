package delivery

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"testing"

	"opsgate/cmd/internal/test/mailtest"
	"opsgate/internal/testkit"
)

// An arrival is a message that a receiver has accepted.
type arrival struct {
	subscriber, mark string // its address, and the mark of the notification
}

// receivers are one SMTP server and one HTTP server, which accept all messages.
type receivers struct {
	smtp     string // address
	httpPort string // on all addresses of the loopback interface
	hangs    func(path string) bool

	mu       sync.Mutex
	arrivals []arrival
	ids      map[arrival]map[string]bool // of all attempts
}

// startReceivers runs receivers until the end of the test. Requests for which hangs returns true
// are never answered.
func startReceivers(t *testing.T, hangs func(path string) bool) *receivers {
	t.Helper()
	r := &receivers{ids: map[arrival]map[string]bool{}, hangs: hangs}
	r.smtp = (&mailtest.Server{Data: r.mail}).Start(t)
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	testkit.Must(t, err)
	_, r.httpPort, _ = net.SplitHostPort(listener.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	hooks := httptest.NewUnstartedServer(http.HandlerFunc(r.hook))
	_ = hooks.Listener.Close()
	hooks.Listener, hooks.Config.BaseContext = listener, func(net.Listener) context.Context { return ctx }
	hooks.Start()
	t.Cleanup(func() {
		cancel()
		hooks.Close()
	})
	return r
}

func (r *receivers) hook(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	switch {
	case err != nil: // the sender was killed
	case r.hangs(request.URL.Path):
		<-request.Context().Done()
	default:
		r.accept("http://"+request.Host+request.URL.Path, request.Header.Get("webhook-id"), body)
	}
}

func (r *receivers) mail(m mailtest.Message) error {
	message, err := mail.ReadMessage(bytes.NewReader(m.Text))
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(message.Header.Get("Message-Id"), "<"), "@")
	r.accept(m.To, id, m.Text)
	return nil
}

// marks finds the mark of a notification in the text of its update.
var marks = regexp.MustCompile(`mark-\d+-\d`)

func (r *receivers) accept(subscriber, id string, content []byte) {
	// Soft line breaks of an email may divide a mark.
	a := arrival{subscriber, string(marks.Find(bytes.ReplaceAll(content, []byte("=\r\n"), nil)))}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals = append(r.arrivals, a)
	if r.ids[a] == nil {
		r.ids[a] = map[string]bool{}
	}
	r.ids[a][id] = true
}

// count returns the number of messages that have arrived, without repeats.
func (r *receivers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}
