package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"opsgate/gateway/openapi/openapitest"
)

// A decoder is a part of a gateway that decodes input of clients or operators.
type decoder struct {
	name  string
	token string   // name of the token in its requests
	seeds []string // inputs that are mutated
	// request returns a request with the text as the input of the decoder.
	request func(text string) string
	admin   bool // on the admin listener
}

// Every decoder gets random bytes and mutations of valid inputs, all decoders at the same time.
func TestMalformedInputIsAnsweredByTheContract(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(startBackend(t).address), unlimited+"trusted_proxies: [127.0.0.0/8]\n")
	validator, known := openapitest.New(t), tokens(t)
	ctx, cancel := context.WithTimeout(t.Context(), either(time.Minute, time.Second))
	defer cancel()
	var running sync.WaitGroup
	wrong := new(findings)
	for i, d := range decoders(resourcesOf(t, g)) {
		running.Go(func() {
			m := mutator{rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}
			s := &sender{decoder: d, secret: known[d.token].Text, gateway: g, validator: validator, wrong: wrong, responses: map[int]int{}}
			s.run(ctx, m)
			s.report(t)
		})
	}
	for name, run := range map[string]func(context.Context, *findings, string) int{
		"a configuration": checkConfigurations(g.base), "a record of demand": replayRecords(g.file),
	} {
		dir := t.TempDir()
		running.Go(func() { report(t, "20", name, fmt.Sprint(run(ctx, wrong, dir), " read"), "exit 0 or 1") })
	}
	running.Wait()
	for _, finding := range wrong.list[:min(len(wrong.list), 10)] {
		t.Error(finding)
	}
	expectNone(t, "20", "responses with 5xx or against the contract, and missing responses", len(wrong.list))
	expectNone(t, "20", "panics", int(g.metric(t, "opsgate_http_panics_total"))+strings.Count(g.Log.String(), "panic"))
	if got := g.get(t, "/livez"); got != "ok\n" {
		t.Errorf("/livez returns %q", got)
	}
}

// findings are violations of the contract. They are safe for concurrent use.
type findings struct {
	sync.Mutex
	list []string
}

func (f *findings) add(format string, args ...any) {
	f.Lock()
	defer f.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// maxHeaderBytes is the default of http.max_header_bytes.
const maxHeaderBytes = 16 << 10

// A sender sends requests to one decoder.
type sender struct {
	decoder
	secret    string // text of the token; "" for none
	gateway   *gateway
	validator *openapitest.Validator
	wrong     *findings

	conn      net.Conn
	from      *bufio.Reader
	responses map[int]int // by status; 0 for responses of net/http itself
}

// run sends requests until the context ends.
func (s *sender) run(ctx context.Context, m mutator) {
	defer s.closeConn()
	for ctx.Err() == nil {
		text := s.request(m.text(s.seeds))
		more := "Host: localhost\r\n"
		if s.secret != "" {
			more += "Authorization: Bearer " + s.secret + "\r\n"
		}
		text = strings.Replace(text, " HTTP/1.1\r\n", " HTTP/1.1\r\n"+more, 1)
		if err := s.send(text); err != nil {
			s.wrong.add("%s: %q: %v", s.name, text, err)
			s.closeConn()
		}
	}
}

// send sends a request, and returns an error if the response violates the contract.
func (s *sender) send(text string) error {
	if err := s.connect(); err != nil {
		return err
	}
	_, sendErr := io.WriteString(s.conn, text) // the gateway may respond before all is sent
	request, requestErr := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	response, err := http.ReadResponse(s.from, request)
	if len(text) > maxHeaderBytes && (errors.Is(err, syscall.ECONNRESET) || errors.Is(sendErr, syscall.ECONNRESET)) {
		s.responses[0]++ // the kernel may drop the response if the gateway did not read all of a header that is too large
		s.closeConn()
		return nil
	}
	if err != nil {
		return errors.Join(err, sendErr)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return errors.Join(err, sendErr)
	}
	if response.Close {
		s.closeConn()
	}
	if !s.admin && response.Header.Get("X-Request-Id") == "" {
		s.responses[0]++
		return checkServerError(response, requestErr)
	}
	s.responses[response.StatusCode]++
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%d %s", response.StatusCode, body)
	case s.admin:
		return nil
	case requestErr != nil:
		return fmt.Errorf("%d for a malformed request: %w", response.StatusCode, requestErr)
	}
	_, sent, _ := strings.Cut(text, "\r\n\r\n")
	x := openapitest.Exchange{Request: request, RequestBody: []byte(sent), Status: response.StatusCode, Header: response.Header, Body: body}
	return errors.Join(s.validator.Check(x), checkList(response.Header["Ratelimit"]), checkList(response.Header["Ratelimit-Policy"]))
}

// connect connects unless there is a connection.
func (s *sender) connect() error {
	if s.conn == nil {
		address := s.gateway.url
		if s.admin {
			address = s.gateway.admin
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			return err
		}
		s.conn, s.from = conn, bufio.NewReader(conn)
	}
	return s.conn.SetDeadline(time.Now().Add(maxWait))
}

// checkServerError returns an error unless net/http itself may have sent the response: to a malformed or too large request.
func checkServerError(response *http.Response, requestErr error) error {
	refusals := []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}
	if requestErr == nil && !slices.Contains(refusals, response.StatusCode) || !response.Close {
		return fmt.Errorf("net/http responded %d", response.StatusCode)
	}
	return nil
}

// checkList returns an error unless a header is a list by RFC 9651.
func checkList(lines []string) error {
	_, err := httpsfv.UnmarshalList(lines)
	return err
}

func (s *sender) closeConn() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// report reports the number of requests. Equal responses to all of them mean that the input was not decoded.
func (s *sender) report(t *testing.T) {
	t.Helper()
	total := 0
	for _, n := range s.responses {
		total += n
	}
	report(t, "20", s.name, fmt.Sprintf("%d sent, responses %v", total, s.responses), "no 5xx")
	if total == 0 || *full && len(s.responses) < 2 {
		t.Errorf("%s: responses %v", s.name, s.responses)
	}
}
