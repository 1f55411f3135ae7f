package chaos

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/internal/testkit"
)

// backendLimit is the Go memory limit of a backend in a container of 400 MiB.
const backendLimit = "GOMEMLIMIT=360MiB"

// Row 40: ten tokens of a team read the largest response that the API lets it create, each of them
// three times at once in each second. It is an incident with the most updates, whose texts are as
// large as possible and double in JSON.
func TestAttackLargestResponses(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t, backendLimit)
	g := startGateway(t, everyService(b.address), unlimited, memoryLimit)
	w := newLargestWriter(t, g)
	id, updates, _ := w.fillIncident(`"`, either(522, 10_000))
	url := g.url + "/v1/incidents/" + id
	largest := mustAsk(t, w.client, http.MethodGet, url, tokens(t)["full"].Text, "", "Accept-Encoding: identity")
	report(t, fmt.Sprintf("largest response of the team, an incident with %d updates", updates), fmt.Sprint(len(largest.body)/1000, " kB"), "–")
	attackers := createTokens(t, b.data, either(10, 3)) // beside other tests, 30 such responses can take longer than a request may
	other := newOtherTeam(t, g)
	other.during(t, time.Second)
	calm := other.during(t, either(10*time.Second, 2*time.Second))

	stopOther := other.start(t)
	own := readThriceASecond(t, url, attackers)
	during := stopOther()
	baseline := max(calm.percentile(.99), other.during(t, either(10*time.Second, time.Second)).percentile(.99)) // the load of the machine varies

	what := fmt.Sprintf("%d tokens", len(attackers))
	expectNone(t, fmt.Sprintf("%s: of %d requests of the team itself, failed", what, len(own)), len(own.failed()))
	expectNone(t, fmt.Sprintf("%s: of %d requests of another team, failed", what, len(during)), len(during.failed()))
	atMostTimes(t, fmt.Sprintf("p99 of another team (%v without)", tenths(baseline)), during.percentile(.99), baseline, 3)
	for name, p := range map[string]struct {
		*testkit.Process

		limit int
	}{"gateway": {g.Process, 460}, "backend": {b.Process, 400}} {
		atMost(t, fmt.Sprintf("largest resident memory of the %s, MiB", name), peakMemory(t, p.Process)>>20, either(p.limit, 10*p.limit))
	}
}

// readThriceASecond requests a URL with each token three times at once, the default limit of a
// second, for 30 seconds (3 in the short form). It does not decompress the responses, because that
// would take CPU time from the gateway.
func readThriceASecond(t *testing.T, url string, tokens []demo.Token) (all responses) {
	t.Helper()
	client := newClient(t, nil)
	var mu sync.Mutex
	var reading sync.WaitGroup
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range either(30, 3) {
		for _, token := range tokens {
			for range 3 {
				reading.Go(func() {
					a := ask(t.Context(), client, http.MethodGet, url, token.Text, "", "Accept-Encoding: gzip").response
					mu.Lock()
					defer mu.Unlock()
					all = append(all, a)
				})
			}
		}
		<-tick.C
	}
	reading.Wait()
	return all
}
