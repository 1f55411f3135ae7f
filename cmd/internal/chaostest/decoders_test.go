package chaostest

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

// A decoder is something of a gateway that reads what others wrote, asked over and over with what nobody should write.
type decoder struct {
	name  string
	token string   // name of the one that it is asked with
	seeds []string // what somebody might write
	// request puts a text where the decoder reads it.
	request func(text string) string
	admin   bool // it is of the admin listener
}

// Each decoder is asked with random bytes and mutations of what it knows, all of them at once, each with a token of its own.
func TestWhateverIsSentIsAnsweredInOrder(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(startBackend(t).address), unlimited+"trusted_proxies: [127.0.0.0/8]\n")
	validator, known := openapitest.New(t), tokens(t)
	ctx, cancel := context.WithTimeout(t.Context(), either(time.Minute, time.Second))
	defer cancel()
	var asked sync.WaitGroup
	wrong := new(findings)
	for i, d := range decoders(resourcesOf(t, g)) {
		asked.Go(func() {
			m := mutator{rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}
			v := &visitor{decoder: d, secret: known[d.token].Text, gateway: g, validator: validator, wrong: wrong, answers: map[int]int{}}
			v.visit(ctx, m)
			v.report(t)
		})
	}
	for name, run := range map[string]func(context.Context, *findings, string) int{
		"a configuration": checkConfigurations(g.base), "a record of demand": replayRecords(g.file),
	} {
		dir := t.TempDir()
		asked.Go(func() { report(t, "20", name, fmt.Sprint(run(ctx, wrong, dir), " read"), "exit 0 or 1") })
	}
	asked.Wait()
	for _, finding := range wrong.list[:min(len(wrong.list), 10)] {
		t.Error(finding)
	}
	expectNone(t, "20", "answers of 5xx, against the contract, or none", len(wrong.list))
	expectNone(t, "20", "panics", int(g.metric(t, "opsgate_http_panics_total"))+strings.Count(g.log.String(), "panic"))
	if got := g.get(t, "/livez"); got != "ok\n" {
		t.Errorf("/livez says %q", got)
	}
}

// findings are what should not have been.
type findings struct {
	sync.Mutex
	list []string
}

func (f *findings) add(format string, args ...any) {
	f.Lock()
	defer f.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// maxHeaderBytes is http.max_header_bytes by default.
const maxHeaderBytes = 16 << 10

// A visitor asks one decoder.
type visitor struct {
	decoder
	secret    string // the token itself; "" for none
	gateway   *gateway
	validator *openapitest.Validator
	wrong     *findings

	conn    net.Conn
	from    *bufio.Reader
	answers map[int]int // by their status; those that net/http gives itself under 0
}

// visit asks until the context ends.
func (v *visitor) visit(ctx context.Context, m mutator) {
	defer v.hangUp()
	for ctx.Err() == nil {
		text := v.request(m.text(v.seeds))
		more := "Host: localhost\r\n"
		if v.secret != "" {
			more += "Authorization: Bearer " + v.secret + "\r\n"
		}
		text = strings.Replace(text, " HTTP/1.1\r\n", " HTTP/1.1\r\n"+more, 1)
		if err := v.ask(text); err != nil {
			v.wrong.add("%s: %q: %v", v.name, text, err)
			v.hangUp()
		}
	}
}

// ask sends a request, and holds its answer against the contract.
func (v *visitor) ask(text string) error {
	if err := v.connect(); err != nil {
		return err
	}
	_, sendErr := io.WriteString(v.conn, text) // it may be refused before it has been sent
	request, requestErr := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	response, err := http.ReadResponse(v.from, request)
	if len(text) > maxHeaderBytes && (errors.Is(err, syscall.ECONNRESET) || errors.Is(sendErr, syscall.ECONNRESET)) {
		v.answers[0]++ // what was not read of a header that is too large may have the kernel drop the answer to it
		v.hangUp()
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
		v.hangUp()
	}
	if !v.admin && response.Header.Get("X-Request-Id") == "" {
		v.answers[0]++
		return mayBeOfTheServer(response, requestErr)
	}
	v.answers[response.StatusCode]++
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%d %s", response.StatusCode, body)
	case v.admin:
		return nil
	case requestErr != nil:
		return fmt.Errorf("%d for what is no request: %w", response.StatusCode, requestErr)
	}
	_, sent, _ := strings.Cut(text, "\r\n\r\n")
	x := openapitest.Exchange{Request: request, RequestBody: []byte(sent), Status: response.StatusCode, Header: response.Header, Body: body}
	return errors.Join(v.validator.Check(x), areFields(response.Header["Ratelimit"]), areFields(response.Header["Ratelimit-Policy"]))
}

// connect connects where there is no connection.
func (v *visitor) connect() error {
	if v.conn == nil {
		address := v.gateway.url
		if v.admin {
			address = v.gateway.admin
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			return err
		}
		v.conn, v.from = conn, bufio.NewReader(conn)
	}
	return v.conn.SetDeadline(time.Now().Add(maxWait))
}

// mayBeOfTheServer holds that an answer that is none of ours is net/http's to what is no request, or is larger than it reads.
func mayBeOfTheServer(response *http.Response, requestErr error) error {
	refusals := []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}
	if requestErr == nil && !slices.Contains(refusals, response.StatusCode) || !response.Close {
		return fmt.Errorf("net/http answers %d", response.StatusCode)
	}
	return nil
}

// areFields holds that a header is a list of RFC 9651.
func areFields(lines []string) error {
	_, err := httpsfv.UnmarshalList(lines)
	return err
}

func (v *visitor) hangUp() {
	if v.conn != nil {
		_ = v.conn.Close()
		v.conn = nil
	}
}

// report notes how much was asked. What was all answered alike was hardly decoded.
func (v *visitor) report(t *testing.T) {
	t.Helper()
	total := 0
	for _, n := range v.answers {
		total += n
	}
	report(t, "20", v.name, fmt.Sprintf("%d asked, answers %v", total, v.answers), "no 5xx")
	if total == 0 || *full && len(v.answers) < 2 {
		t.Errorf("%s: answers %v", v.name, v.answers)
	}
}
