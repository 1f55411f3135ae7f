package inbox_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/dev/inbox"
)

func TestEmailIsKeptWithItsParts(t *testing.T) {
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	s := start(t, inbox.Options{Clock: func() time.Time { return at }})
	s.mustMail(ana, exampleMail(s.URL(), "01"))
	s.mustMail("other@customer.example", []byte("Subject: Plain\r\n\r\nNo parts.\r\n"))
	list := s.messages()
	if len(list) != 2 || list[1].Subject != "Slow search – investigating" || list[1].Page != "Harbour" || list[1].Address != ana ||
		list[1].ID != "01" || list[1].Channel != "email" || !list[1].ReceivedAt.Equal(at) || list[0].Page != "" || list[0].Number != 2 {
		t.Fatalf("got %+v", list)
	}
	d := s.detail(1)
	if d.Text != "Search is slow – we are looking into it." || d.HTML != "/messages/1/html" || !strings.Contains(d.Raw, "=E2=80=93 we are") {
		t.Errorf("got %+v", d)
	}
	if d.Unsubscribe != "/subscriptions/abc/unsubscribe" {
		t.Errorf("the one-click link is %q", d.Unsubscribe)
	}
	if got := d.Headers[6]; len(d.Headers) != 9 || got != (inbox.Header{Name: "X-Long", Value: "first second"}) {
		t.Errorf("the headers are %q", d.Headers)
	}
	status, html, header := s.get(d.HTML)
	if status != 200 || !strings.Contains(html, "<p>Search is <b>slow</b>.</p>") ||
		!strings.HasPrefix(header.Get("Content-Security-Policy"), "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'") {
		t.Errorf("got %d %s %v", status, html, header)
	}
	if d := s.detail(2); d.Text != "No parts.\r\n" || d.HTML != "" || d.Unsubscribe != "" {
		t.Errorf("got %+v", d)
	}
	if status, _, _ := s.get("/messages/2/html"); status != 404 {
		t.Errorf("an email without HTML: got %d", status)
	}
}

// A link to another host must not become a request to a path of the inbox.
func TestOneClickLinkOfAnotherHostIsNotOffered(t *testing.T) {
	s := start(t, inbox.Options{})
	s.mustMail(ana, exampleMail("https://elsewhere.example", "01"))
	if d := s.detail(1); d.Unsubscribe != "" {
		t.Errorf("got %q", d.Unsubscribe)
	}
}

func TestMalformedEmailsAreShown(t *testing.T) {
	s := start(t, inbox.Options{})
	for n, text := range []string{
		"no header at all",
		"Subject: =?nonsense\r\nContent-Type: multipart/mixed\r\n\r\nno boundary",
		"Subject: \xff\r\nContent-Type: text/html\r\n\r\n<p>\xff",
		"Subject: x\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n" + strings.Repeat("--a\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n", 300),
	} {
		s.mustMail(ana, []byte(text+"\r\n"))
		if d := s.detail(uint64(n) + 1); !strings.HasPrefix(strings.ToValidUTF8(text, "\uFFFD"), d.Raw[:10]) {
			t.Errorf("got %+v", d)
		}
	}
}

func TestWebhooksAreVerified(t *testing.T) {
	s := start(t, inbox.Options{})
	tampered := signed(t, partner, "3", payload, secrets()[0])
	tampered.Header.Set("Webhook-Id", "4")
	unsigned := newRequest(t, http.MethodPost, partner, "not JSON \xff")
	for _, test := range []struct {
		name    string
		request *http.Request
		valid   bool
		detail  string
	}{
		{"the newest secret", signed(t, partner, "1", payload, secrets()[0]), true, "signature verified with secret 1 of 2"},
		{"the secret before it", signed(t, partner, "2", payload, secrets()[1]), true, "signature verified with secret 2 of 2"},
		{"a tampered id", tampered, false, "not verified: no matching signature found"},
		{"another secret", signed(t, partner, "5", payload, []byte("another")), false, "not verified: no matching signature found"},
		{"an old timestamp", signedAt(t, partner, "6", payload, secrets()[0], time.Now().Add(-time.Hour)), false, "not verified: message timestamp too old"},
		{"no signature", unsigned, false, "not verified: missing required headers"},
		{"no subscriber", signed(t, "http://other.example/", "7", payload, secrets()[0]), false, "not verified: no subscriber has this URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if status, body, _ := do(t, &s.receiver, test.request); status != 204 {
				t.Fatalf("got %d %s", status, body)
			}
			got := s.messages()[0]
			if *got.Signature != (inbox.Signature{Verified: test.valid, Detail: test.detail}) || test.valid && got.Page != "Harbour" {
				t.Errorf("got %+v %+v", got, got.Signature)
			}
		})
	}
	d := s.detail(1)
	if d.Subject != "incident.created: Slow search" || d.Address != partner || d.Status != 204 || d.Timestamp == "" ||
		!strings.Contains(d.Text, "\n    \"incident\": {\n") || !strings.HasPrefix(d.Raw, "POST /status HTTP/1.1\r\nHost: hooks.partner.example\r\n") ||
		!strings.HasSuffix(d.Raw, "\r\n\r\n"+payload) || d.Headers[0] != (inbox.Header{Name: "Host", Value: "hooks.partner.example"}) {
		t.Errorf("got %+v", d)
	}
}

func TestReceiverFailsTwiceThenAccepts(t *testing.T) {
	s := start(t, inbox.Options{SlowFor: time.Nanosecond})
	for n, want := range []int{500, 500, 204, 204} {
		if status, _, _ := do(t, &s.receiver, signed(t, "http://hooks.partner.example/fails-twice", "1", payload, secrets()[0])); status != want {
			t.Errorf("arrival %d: got %d", n+1, status)
		}
		if got := s.messages()[0]; got.Attempt != n+1 || got.Status != want || got.Receiver != "this receiver fails twice, then accepts" {
			t.Errorf("arrival %d: got %+v", n+1, got)
		}
	}
	if status, _, _ := do(t, &s.receiver, signed(t, "http://hooks.partner.example/fails-twice", "2", payload, secrets()[0])); status != 500 {
		t.Errorf("another message: got %d", status)
	}
	if status, _, _ := do(t, &s.receiver, signed(t, "http://hooks.partner.example/slow", "1", payload, secrets()[0])); status != 204 {
		t.Errorf("the slow receiver: got %d", status)
	}
	if got := s.messages()[0]; got.Attempt != 1 || got.Receiver != "this receiver is slow" {
		t.Errorf("the slow receiver: got %+v", got)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	s := start(t, inbox.Options{})
	for n := range 502 {
		do(t, &s.receiver, newRequest(t, http.MethodPost, partner, fmt.Sprint(n)))
	}
	if list := s.messages(); len(list) != 500 || list[0].Number != 502 || list[499].Number != 3 {
		t.Errorf("got %d messages", len(list))
	}
	if status, _, _ := s.get("/messages/2"); status != 404 {
		t.Errorf("a message that is no longer kept: got %d", status)
	}
	large := append([]byte("Subject: large\r\n\r\n"), padding(1_000_000)...)
	for range 40 {
		s.mustMail(ana, large)
	}
	if list := s.messages(); len(list) != 33 || list[0].Bytes*len(list) > 32<<20 || list[0].Bytes*(len(list)+1) <= 32<<20 {
		t.Errorf("got %d messages of %d bytes", len(list), list[0].Bytes)
	}
	if err := s.mail(ana, append(large, padding(60_000)...)); err == nil || !strings.Contains(err.Error(), "552") {
		t.Errorf("an email over 1 MiB: %v", err)
	}
	for size, want := range map[int]int{256 << 10: 204, 256<<10 + 1: 413} {
		if status, _, _ := do(t, &s.receiver, newRequest(t, http.MethodPost, partner, strings.Repeat("x", size))); status != want {
			t.Errorf("a webhook of %d bytes: got %d", size, status)
		}
	}
}

func TestEventsFollowTheList(t *testing.T) {
	s := start(t, inbox.Options{})
	s.mustMail(ana, exampleMail(s.URL(), "01"))
	response, err := s.client.Do(newRequest(t, http.MethodGet, s.URL()+"/events", ""))
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	next := func() (n struct {
		Reset    bool
		Oldest   uint64
		Messages []inbox.Summary
	}) {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				s.decode(data, &n)
				return n
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return n
	}
	if n := next(); !n.Reset || n.Oldest != 1 || len(n.Messages) != 1 {
		t.Errorf("at first: got %+v", n)
	}
	s.mustMail(ana, exampleMail(s.URL(), "01"))
	if n := next(); n.Reset || n.Oldest != 1 || len(n.Messages) != 1 || n.Messages[0].Number != 2 || n.Messages[0].Attempt != 2 {
		t.Errorf("a repeat: got %+v", n)
	}
	if status, _, _ := do(t, &s.client, newRequest(t, http.MethodDelete, s.URL()+"/messages", "")); status != 204 {
		t.Errorf("clear: got %d", status)
	}
	if n := next(); !n.Reset || n.Oldest != 0 || len(n.Messages) != 0 {
		t.Errorf("after clear: got %+v", n)
	}
}

func TestOnlyLocalHostsAreServed(t *testing.T) {
	s := start(t, inbox.Options{})
	for host, want := range map[string]int{"127.0.0.1": 200, "localhost:80": 200, "[::1]:80": 200, "rebound.test": 421, "192.0.2.1": 421, "hooks.example": 405} {
		request := newRequest(t, http.MethodGet, s.URL()+"/messages", "")
		request.Host = host
		if status, _, _ := do(t, &s.client, request); status != want {
			t.Errorf("%s: got %d", host, status)
		}
	}
	request := newRequest(t, http.MethodDelete, s.URL()+"/messages", "")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _, _ := do(t, &s.client, request); status != 403 {
		t.Errorf("a request of another site: got %d", status)
	}
	if status, _, _ := s.get("/metrics"); status != 200 {
		t.Errorf("metrics: got %d", status)
	}
}

func TestListenRefusesOtherInterfaces(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "8025"} {
		if box, err := inbox.Listen(t.Context(), inbox.Options{Address: address}); err == nil {
			t.Errorf("%s: it listens on %s", address, box.URL())
			_ = box.Close()
		}
	}
}

func TestDialContextStaysOnTheMachine(t *testing.T) {
	names := map[string][]string{
		"elsewhere.test": {"192.0.2.1"}, "private.test": {"10.0.0.1", "169.254.169.254"}, "here.test": {"192.0.2.1", "::ffff:127.0.0.1"},
		"192.0.2.7": {"192.0.2.7"}, "127.0.0.1": {"127.0.0.1"}, "example": {"192.0.2.1"},
	}
	looked := map[string]int{}
	s := start(t, inbox.Options{Lookup: func(_ context.Context, _, host string) (list []netip.Addr, err error) {
		looked[host]++
		for _, ip := range names[host] {
			list = append(list, netip.MustParseAddr(ip))
		}
		if looked[host] > 1 {
			list = []netip.Addr{netip.MustParseAddr("192.0.2.1")} // rebound
		}
		return list, nil
	}})
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL(), "http://"), ":")
	for host, connects := range map[string]bool{
		"elsewhere.test": false, "private.test": false, "192.0.2.7": false, "unknown.test": false, "example": false,
		"here.test": true, "127.0.0.1": true, "hooks.example": true, "HOOKS.Example.": true,
	} {
		connection, err := s.DialContext(t.Context(), "tcp", host+":"+port)
		if (err == nil) != connects || err != nil && !strings.Contains(err.Error(), "is not on this machine") {
			t.Errorf("%s: got %v, %v", host, connection, err)
		}
		if err == nil {
			if remote := connection.RemoteAddr().String(); remote != "127.0.0.1:"+port {
				t.Errorf("%s: connected to %s", host, remote)
			}
			_ = connection.Close()
		}
		if looked[host] > 1 {
			t.Errorf("%s: looked up %d times", host, looked[host])
		}
	}
}

func TestRunEndsIfTheContextHasEnded(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 20 {
		box, err := inbox.Listen(t.Context(), inbox.Options{})
		testkit.Must(t, err)
		if err := box.Run(ctx, new(system).system()); err != nil {
			t.Error(err)
		}
	}
}
