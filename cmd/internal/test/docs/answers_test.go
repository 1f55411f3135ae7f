package docs

import (
	"cmp"
	"flag"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

var update = flag.Bool("update", false,
	"record again the responses in gateway/apidocs/samples/answers that differ, and the pictures of the README")

const folder = "../../../../gateway/apidocs/samples/answers"

func TestRecordedAnswersAreReal(t *testing.T) {
	s := start(t, "rate_limit: {limits: [{requests: 3, per: 1s}, {requests: 5000, per: 1h}]}\n") // the records show the usual limits
	for _, o := range readsFirst() {
		answer := record(t, s, o)
		recorded, _ := samples.Answer(o.ID)
		switch method := samples.Requests()[o.ID].Method; {
		case masked(method, recorded) == masked(method, answer):
		case *update:
			testkit.Must(t, os.WriteFile(filepath.Join(folder, o.ID+".http"), []byte(answer), 0o644))
		default:
			t.Errorf("%s differs from its record; after a check, record it with -update:\n%s\nthe record:\n%s", o.ID, answer, recorded)
		}
	}
}

// A record of a removed operation would stay in the program.
func TestEveryRecordHasAnOperation(t *testing.T) {
	files, err := filepath.Glob(folder + "/*.http")
	testkit.Must(t, err)
	ids := slices.Collect(maps.Keys(samples.Requests()))
	for _, file := range files {
		if id := strings.TrimSuffix(filepath.Base(file), ".http"); !slices.Contains(ids, id) {
			t.Errorf("%s is of no operation", file)
		}
	}
	if len(files) != len(ids) {
		t.Errorf("%d records for %d operations", len(files), len(ids))
	}
}

// readsFirst returns the operations in an order in which no write changes what a later one reads.
func readsFirst() []openapitest.Operation {
	return slices.SortedStableFunc(slices.Values(openapitest.Operations()), func(a, b openapitest.Operation) int {
		return cmp.Compare(a.Method, b.Method) // GET, POST
	})
}

// record returns the response to the example request of the operation, sent with the token of its
// scope, as soon as the limits of that admit it.
func record(t *testing.T, s system, o openapitest.Operation) string {
	t.Helper()
	var response *http.Response
	var body []byte
	testkit.Eventually(t, o.ID+" is within the limits", func() bool {
		response, body = s.call(t, samples.Requests()[o.ID], cmp.Or(o.Scope, "full"))
		return response.StatusCode != http.StatusTooManyRequests
	})
	if response.StatusCode != 200 {
		t.Fatalf("%s: %s: %s", o.ID, response.Status, body)
	}
	var b strings.Builder
	b.WriteString(response.Proto + " " + response.Status + "\n")
	for _, name := range []string{"Content-Type", "Cache-Control", "ETag", "Link", "RateLimit-Policy", "RateLimit", "X-Request-Id"} {
		if value := response.Header.Get(name); value != "" {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	return b.String() + "\n" + shorten(t, body) + "\n"
}
