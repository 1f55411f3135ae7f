package chaos

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// bodySize is the default of http.max_body_bytes.
const bodySize = 128 << 10

// validBody returns a valid body of the maximum size, whose message has the maximum length.
func validBody() string {
	body := `{"title":"t","status":"resolved","impact":"none","message":"` + strings.Repeat("ü", 10_000) + `"`
	return body + strings.Repeat(" ", bodySize-len(body)-1) + "}"
}

// worstBodies returns bodies of the maximum size that are expensive to decode, by what they contain.
func worstBodies() map[string]string {
	filled := func(begin string, element func(i int) string, end string) string {
		var b strings.Builder
		b.WriteString(begin)
		for i := 0; ; i++ {
			next := element(i)
			if b.Len()+len(next)+len(end) > bodySize {
				return b.String() + end
			}
			b.WriteString(next)
		}
	}
	repeated := func(text string) func(int) string { return func(int) string { return text } }
	return map[string]string{
		"names":          filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"%x":0`, i) }, "}"),
		"escaped names":  filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"\u%04x":0`, i%0xd800) }, "}"),
		"one name":       filled(`{"title":""`, repeated(`,"title":""`), "}"),
		"long names":     filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"%01000d":0`, i) }, "}"),
		"ids":            filled(`{"componentIds":["`+unknown+`"`, repeated(`,"`+unknown+`"`), "]}"),
		"nesting":        filled(`{"title":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,"a":[0`, repeated(",0"), "]}"),
		"escapes":        filled(`{"message":"`, repeated(`\u0000`), `"}`),
		"half pairs":     filled(`{"message":"`, repeated(`\ud800`), `"}`),
		"backslashes":    filled(`{"message":"`, repeated(`\\`), `"}`),
		"invisible text": filled(`{"message":"`, repeated("\u200b"), `"}`),
		"a number":       filled(`{"title":1`, repeated("0"), "}"),
		"no end":         filled(`{"a":[`, repeated("0,"), "0]"),
	}
}

// Row 26: a body of the maximum size costs at most three times as much CPU as a valid one, whatever it contains.
func TestAttackWorstCaseBodies(t *testing.T) {
	parallel(t)
	n := either(200, 10)
	g := startGateway(t, everyService(shared.address), unlimited)
	client := newClient(t, nil)
	cost := func(body string) (perRequest float64, response int) {
		before := g.metric(t, "process_cpu_seconds_total")
		for range n {
			status, text := postIncident(t, client, g, body)
			if status != http.StatusOK && status != http.StatusUnprocessableEntity {
				t.Fatalf("got %d %s", status, text)
			}
			response = len(text)
		}
		return (g.metric(t, "process_cpu_seconds_total") - before) / float64(n), response
	}
	cost(validBody())
	baseline, _ := cost(validBody())
	for name, body := range worstBodies() {
		worst, response := cost(body)
		what := fmt.Sprintf("%d KiB of %s: CPU time, as a multiple of the %.2f ms of a valid body", len(body)>>10, name, baseline*1000)
		report(t, "26", what, fmt.Sprintf("%.1f", worst/baseline), "at most 3")
		if *full && worst > 3*baseline {
			t.Errorf("%s: %.1f times", name, worst/baseline)
		}
		atMost(t, "26", fmt.Sprintf("%s: bytes of the response", name), response, 16<<10)
	}
}

func postIncident(t *testing.T, client *http.Client, g *gateway, body string) (status int, content []byte) {
	t.Helper()
	return postTo(t, client, g.url+"/v1/incidents", body)
}

// postTo sends a body with the token "full".
func postTo(t *testing.T, client *http.Client, url, body string) (status int, content []byte) {
	t.Helper()
	a := mustAsk(t, client, http.MethodPost, url, tokens(t)["full"].Text, body)
	return a.status, a.body
}

// Row 28: a body whose last byte arrives too late gets 408, counts for the limit, and does not count as a failure of the service.
func TestAttackLateBodies(t *testing.T) {
	parallel(t)
	const late = 30
	g := startGateway(t, everyService(shared.address), unlimited+"http: {body_timeout: 300ms}\n")
	const body = `{"title":"that must not be","status":"investigating","impact":"none","message":"m"}`
	statuses := make(chan int, late)
	onConnections(t, late, g.socket(), func(conn net.Conn) {
		head := posting(tokens(t)["full"].Text, len(body)) + "\r\n"
		if _, err := io.WriteString(conn, head+body[:len(body)-1]); err != nil {
			t.Error(err)
		}
		got, _, err := readResponse(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, body[len(body)-1:]) // fails if the connection is closed
		statuses <- got.StatusCode
	})
	close(statuses)
	other := 0
	for status := range statuses {
		if status != http.StatusRequestTimeout {
			other++
		}
	}
	expectNone(t, "28", fmt.Sprintf("of %d late bodies, not answered with 408", late), other)
	expectNone(t, "28", "refunded requests", int(g.metric(t, "opsgate_rate_limit_refunds_total")))
	admitted := g.metric(t, `opsgate_rate_limit_decisions_total{limit="second",outcome="admitted",policy="default"}`)
	report(t, "28", "requests counted by the limit", admitted, late)
	if int(admitted) != late {
		t.Errorf("%v requests were counted, want %d", admitted, late)
	}
	var failed int
	for line := range strings.Lines(g.get(t, "/metrics")) {
		if strings.HasPrefix(line, "opsgate_http_requests_total{") && strings.Contains(line, `status="5`) {
			failed++
		}
	}
	expectNone(t, "28", "series of failed requests", failed)
	newest := mustAsk(t, newClient(t, nil), http.MethodGet, g.url+"/v1/incidents", tokens(t)["full"].Text, "").body
	expectNone(t, "28", "incidents created", strings.Count(string(newest), "that must not be"))
}
