package command_test

import (
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/breaker"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

const (
	tokenID    = servicestest.TokenID
	teamID     = servicestest.TeamID
	adminToken = "a-token-of-operators"
	otherID    = "01a206d5-5071-7a3c-8c11-3f0f7f2a8f2a" // of a token that is not cached
)

// A gateway is a running gateway and its configuration.
type gateway struct {
	services        *servicestest.Services
	address, config string
	variables       []string
	log             *testkit.Buffer
	stop            func()
}

// serveGateway runs a gateway with the configuration good and more, and with a free port for the
// admin listener.
func serveGateway(t *testing.T, more string) *gateway {
	t.Helper()
	g := &gateway{
		services:  servicestest.Start(t),
		variables: []string{"ADMIN_TOKEN=" + adminToken, "USER=ada", "OPSGATE_LISTEN=127.0.0.1:0"},
	}
	for _, service := range []string{"IDENTITY", "FLEET", "MONITORING", "INCIDENT", "AUDIT"} {
		g.variables = append(g.variables, "OPSGATE_UPSTREAMS_"+service+"_ADDRESS="+g.services.Address)
	}
	g.config = write(t, strings.Replace(good, "admin: {listen: 127.0.0.1:0}\n", "", 1)+more)
	g.log, g.stop = serve(t, g.variables, "--config", g.config, "--admin-listen", "127.0.0.1:0")
	line := awaitLine(t, g.log, "serving")
	g.address = fmt.Sprint(line["listen"])
	g.variables = append(g.variables, "OPSGATE_ADMIN_LISTEN="+fmt.Sprint(line["admin_listen"]))
	return g
}

// opsgate runs a command with the gateway's configuration.
func (g *gateway) opsgate(t *testing.T, arguments ...string) result {
	t.Helper()
	return opsgate(t, g.variables, append(arguments, "--config", g.config)...)
}

// admin returns the address of the admin listener.
func (g *gateway) admin(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(awaitLine(t, g.log, "serving")["admin_listen"])
}

// get sends a request to the public API, and returns the status.
func (g *gateway) get(t *testing.T, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.address+path, http.NoBody)
	testkit.Must(t, err)
	request.Header.Set("Authorization", "Bearer "+g.services.Token)
	transport := http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	testkit.Must(t, err)
	_ = response.Body.Close()
	return response.StatusCode
}

const explained = `admin: {token: "${ADMIN_TOKEN}"}
rate_limit:
  limits: [{requests: 1000, per: 1h}]
  teams:
    5d6f0f8a-2f5b-4b52-8a41-8f8b4a1f7c01:
      limits: [{name: few, requests: 2, per: 1h}]
      owner: ada
      reason: they asked for it
`

func TestExplainAndLimits(t *testing.T) {
	g := serveGateway(t, explained)
	explain := func(path string) string {
		r := g.opsgate(t, "explain", tokenID, "GET", path)
		if r.code != 0 || r.err != "" {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
		return words(r.out)
	}
	testkit.Contains(t, explain("/v1/servers"), "\nmethod GET\npath /v1/servers\nanswer status 200, code ok\n", "\ntoken unknown ", "\nservice name fleet, state ")
	testkit.Contains(t, explain("/v1/audit?limit=0&action=x&action=y"), "\npath /v1/audit?limit=0&action=x&action=y\n",
		"\nanswer status 422, code validation_error, cause input:query, text the request has invalid fields, "+
			"details action=must be given once limit=must be a whole number from 1 to 100, failed check request\n")
	for range 2 {
		if got := g.get(t, "/v1/me"); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	if got := g.get(t, "/v1/me"); got != 429 {
		t.Fatalf("got %d", got)
	}
	testkit.Contains(t, explain("/v1/servers"),
		"\nanswer status 429, code rate_limited, cause limit:few, text rate limit exceeded: 2 requests per hour, retry after ", ", failed check limits\n",
		"\nlimits refuses rate limit exceeded: 2 requests per hour\n", "\nNAME REQUESTS PER SHADOW REMAINING RESET ORIGIN\nfew 2 1h false 0 ", g.config+":14\n",
		"\npolicy class team, chosen by the configuration, for the team, key rate_limit.teams."+teamID+", origin "+g.config, ", owner ada, reason they asked for it\n",
		"\ntoken cached true, freshness fresh, team id "+teamID+", ai plan true, scopes servers:read\n",
		"\nroute id v1ListServers, method GET, path /v1/servers, scope servers:read, service fleet, ", "\nstore mode memory\n",
		"\nconfig version ", "\nscope this gateway only\n",
	)
	var x admin.Explanation
	if err := json.Unmarshal([]byte(g.opsgate(t, "explain", tokenID, "GET", "/v1/servers", "--json").out), &x); err != nil || x.Answer.Status != 429 {
		t.Errorf("got %+v, %v", x, err)
	}
	if got := g.opsgate(t, "limits", strings.ToUpper(tokenID), "--reset"); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	line := awaitLine(t, g.log, "limits of a token were reset")
	if line["by"] != "admin token" || line["operator"] != "ada" || line["remaining_before"] != "few: 0 of 2" || line["token_id"] != tokenID {
		t.Errorf("got %v", line)
	}
	if got := g.opsgate(t, "limits", tokenID); got.code != 0 || !strings.Contains(words(got.out), "\nfew 2 1h false 2 0s ") {
		t.Errorf("got %+v", got)
	}
	if got := g.opsgate(t, "limits", "--top", "5"); got.code != 0 || words(got.out) != "scope this gateway only\n\nTOKEN ID TEAM ID REQUESTS DENIED ERROR\n"+tokenID+" "+teamID+" 3 1 0\n" {
		t.Errorf("got %+v", got)
	}
	if strings.Contains(g.log.String(), g.services.Token) || strings.Contains(g.log.String(), adminToken) {
		t.Error("a token is in the log")
	}
}

func TestExplainTellsWhoBlocksRequests(t *testing.T) {
	g := serveGateway(t, strings.Replace(explained, "requests: 2,", "requests: 0,", 1))
	if got := g.get(t, "/v1/me"); got != 429 {
		t.Fatalf("got %d", got)
	}
	testkit.Contains(t, words(g.opsgate(t, "explain", tokenID, "GET", "/v1/servers").out),
		", text requests with this token are blocked: 0 requests per hour, retry after 1h, failed check limits\n",
		"\nfew 0 1h false 0 1h "+g.config+":14\n",
		"\npolicy class team, chosen by the configuration, for the team, key rate_limit.teams."+teamID+", origin "+g.config+":", ", owner ada, reason they asked for it\n")
}

func TestTeamFlagSelectsThePolicyOfUncachedToken(t *testing.T) {
	g := serveGateway(t, explained)
	without, with := g.opsgate(t, "limits", otherID), g.opsgate(t, "limits", otherID, "--team", teamID)
	if !strings.Contains(without.out, "team unknown true") || !strings.Contains(words(without.out), " 1000 1h ") {
		t.Errorf("got %+v", without)
	}
	if strings.Contains(with.out, "team unknown") || !strings.Contains(words(with.out), "few 2 1h ") {
		t.Errorf("got %+v", with)
	}
	if got := g.opsgate(t, "explain", otherID, "GET", "/v1/servers", "--team", teamID); !strings.Contains(words(got.out), "few 2 1h ") {
		t.Errorf("got %+v", got)
	}
}

func TestTokenIsNamedByAPartOfItsName(t *testing.T) {
	g := serveGateway(t, explained)
	g.services.Names = [2]string{"Deploy bot", "Harbour"}
	if got := g.opsgate(t, "limits", "deploy"); got.code != 1 || !strings.Contains(got.err, `has cached no token with "deploy" in its name or its team's name; use its id`) {
		t.Errorf("before any request: %+v", got)
	}
	g.get(t, "/v1/me")
	for _, arguments := range [][]string{
		{"limits", "deploy BOT"}, {"limits", "harb"}, {"limits", tokenID}, {"explain", "deploy", "GET", "/v1/me"},
	} {
		got := g.opsgate(t, arguments...)
		if want := ", token name Deploy bot, team id " + teamID + ", team name Harbour, ai plan true"; got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%q: got %+v", arguments, got)
		}
	}
	if got := g.opsgate(t, "limits", "--top", "5"); !strings.Contains(words(got.out), "\nTOKEN ID TEAM ID TOKEN NAME TEAM NAME REQUESTS DENIED ERROR\n"+tokenID+" "+teamID+" Deploy bot Harbour 1 ") {
		t.Errorf("got %+v", got)
	}
	if got := g.opsgate(t, "limits", "deploy", "--reset"); got.code != 2 || !strings.Contains(got.err, "--reset needs the token's id") {
		t.Errorf("got %+v", got)
	}
}

// answering serves an admin listener, and returns its address.
func answering(t *testing.T, serve http.HandlerFunc) (address string) {
	t.Helper()
	gateway := httptest.NewServer(serve)
	t.Cleanup(gateway.Close)
	return gateway.Listener.Addr().String()
}

func TestAmbiguousNameListsTheTokens(t *testing.T) {
	var targets []string
	address := answering(t, func(w http.ResponseWriter, r *http.Request) {
		targets = append(targets, r.URL.String())
		admin.Respond(w, http.StatusOK, admin.FoundTokens{Total: 21, Tokens: []admin.TokenIdentity{
			{TokenID: tokenID, TokenName: "bot 1", TeamID: teamID, TeamName: "harbour"}, {TokenID: otherID, TeamID: teamID},
		}})
	})
	got := opsgate(t, nil, "explain", "har bour", "GET", "/v1/me", "--admin", address)
	want := `21 cached tokens have "har bour" in their name or their team's name; use one of these ids:` + "\n  " +
		tokenID + " (bot 1) of team " + teamID + " (harbour)\n  " + otherID + " of team " + teamID + "\n  and 19 more\n"
	if got.code != 1 || !strings.HasSuffix(got.err, want) || !slices.Equal(targets, []string{"/admin/tokens?q=har+bour"}) {
		t.Errorf("got %+v, %q", got, targets)
	}
}

func TestLargeResponsesAreComplete(t *testing.T) {
	body := strings.Repeat("x", 5<<20)
	address := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	if got := opsgate(t, nil, "limits", tokenID, "--json", "--admin", address); got.code != 0 || got.out != body {
		t.Errorf("exit code %d, %d bytes: %s", got.code, len(got.out), got.err)
	}
}

func TestInvalidExplainAndLimitsArguments(t *testing.T) {
	g := serveGateway(t, explained)
	token := g.services.Token
	wrong := *g
	wrong.variables = append([]string{"OPSGATE_ADMIN_TOKEN=${OTHER_TOKEN}", "OTHER_TOKEN=another-token-of-operators"}, g.variables...)
	for _, test := range []struct {
		name      string
		gateway   *gateway
		arguments []string
		code      int
		err       string
	}{
		{"a token", g, []string{"explain", token, "GET", "/v1/me"}, 1, "that is a token; use its id, which is in the access log"},
		{"a bad path", g, []string{"explain", tokenID, "GET", "v1"}, 1, "path: begins with /"},
		{"a method in small letters", g, []string{"explain", tokenID, "get", "/v1/me"}, 1, "method: is a method, for example GET, in capitals"},
		{"no path", g, []string{"explain", tokenID, "GET"}, 2, "the argument PATH is missing"},
		{"no token", g, []string{"limits"}, 2, "expected a token's id, or --top"},
		{"both", g, []string{"limits", tokenID, "--top", "5"}, 2, "--top cannot be combined"},
		{"a reset without a token", g, []string{"limits", "--top", "5", "--reset"}, 2, "--top cannot be combined"},
		{"too many", g, []string{"limits", "--top", "1001"}, 1, "n: is a number from 1 to 1000"},
		{"another token of operators", &wrong, []string{"limits", tokenID}, 1, "answered 401: missing or wrong admin token"},
		{"a reset with it", &wrong, []string{"limits", tokenID, "--reset"}, 1, "answered 401: missing or wrong admin token"},
		{"another server", g, []string{"limits", tokenID, "--admin", "http://" + g.address}, 1, "answered 404"},
		{"no server", g, []string{"limits", tokenID, "--admin", "http://127.0.0.1:1"}, 1, "connection refused"},
	} {
		got := test.gateway.opsgate(t, test.arguments...)
		if got.code != test.code || !strings.Contains(got.err, test.err) || strings.Contains(got.err+got.out, token) {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

func TestAdminFlagsReplaceTheConfiguration(t *testing.T) {
	g := serveGateway(t, explained)
	address := g.admin(t)
	at, file := "--admin="+address, write(t, adminToken+"\n")
	if got := opsgate(t, nil, "limits", tokenID, at, "--token-file", file); got.code != 0 || !strings.Contains(words(got.out), " 1000 1h ") {
		t.Errorf("with the token: got %+v", got)
	}
	for _, url := range []string{"http://" + address, "http://" + address + "/"} {
		if got := opsgate(t, nil, "explain", tokenID, "GET", "/v1/me", "--admin", url, "--token-file", file); got.code != 0 {
			t.Errorf("at %s: got %+v", url, got)
		}
	}
	testkit.Eventually(t, "the gateway is healthy", func() bool { return opsgate(t, nil, "healthcheck", at).code == 0 })
	if got := opsgate(t, nil, "limits", tokenID, at); got.code != 1 || !strings.Contains(got.err, "answered 401") {
		t.Errorf("without it: got %+v", got)
	}
	if got := opsgate(t, nil, "limits", tokenID, at, "--token-file", file+"x"); got.code != 1 || !strings.Contains(got.err, "read the admin token") {
		t.Errorf("without the file: got %+v", got)
	}
	if got := opsgate(t, g.variables, "limits", tokenID, at, "--config", g.config); got.code != 0 {
		t.Errorf("with its configuration: got %+v", got)
	}
}

func TestExplainShowsBreakers(t *testing.T) {
	open := admin.Service{Name: "fleet", State: "breaker open", Breaker: &breaker.Status{State: "open", Cause: "Unavailable"}}
	answer := admin.Explanation{Service: &open, Identity: admin.Service{Name: "identity", State: "ready", Breaker: &breaker.Status{State: "closed"}}}
	address := answering(t, func(w http.ResponseWriter, _ *http.Request) { admin.Respond(w, http.StatusOK, answer) })
	got := opsgate(t, nil, "explain", tokenID, "GET", "/v1/servers", "--admin", address)
	testkit.Contains(t, words(got.out), "\nservice name fleet, state breaker open, breaker state open, cause Unavailable\n",
		"\nidentity name identity, state ready, breaker state closed\n")
}

func TestAdminCommandsOverTLS(t *testing.T) {
	roots, users := certstest.NewAuthority(t, "root"), certstest.NewAuthority(t, "root")
	own, ada, other := roots.Server(t, 1), users.Client(t, pkix.Name{CommonName: "ada"}, 2), roots.Server(t, 3)
	files := certstest.Write(t, own.Certificate, own.Key, users.PEM, roots.PEM, ada.Certificate, ada.Key, other.Certificate, other.Key)
	g := serveGateway(t, fmt.Sprintf("admin: {tls: {cert_file: %s, key_file: %s, client_ca_file: %s}}\n", files[0], files[1], files[2]))
	elsewhere := *g
	elsewhere.config = write(t, strings.Replace(good, "admin: {listen: 127.0.0.1:0}", fmt.Sprintf(
		"admin: {tls: {cert_file: %s, key_file: %s}}", files[6], files[7]), 1))
	ca, mine := "--ca="+files[3], []string{"--cert=" + files[4], "--key=" + files[5]}
	testkit.Eventually(t, "the gateway is ready", func() bool { return g.opsgate(t, "healthcheck").code == 0 })
	for _, test := range []struct {
		name      string
		gateway   *gateway
		arguments []string
		code      int
		want      string
	}{
		{"healthcheck with the configuration", g, []string{"healthcheck"}, 0, `"status"`},
		{"healthcheck with the roots", g, []string{"healthcheck", ca}, 0, `"status"`},
		{"healthcheck with address and roots", g, []string{"healthcheck", "--admin=" + g.admin(t), ca}, 0, `"status"`},
		{"other roots", g, []string{"healthcheck", "--ca=" + files[2]}, 1, "certificate"},
		{"invalid roots", g, []string{"healthcheck", "--ca=" + files[1]}, 1, "no certificate in"},
		{"another gateway's configuration", &elsewhere, []string{"healthcheck"}, 1, "does not have the certificate of " + files[6]},
		{"without a certificate", g, []string{"limits", tokenID}, 1, "answered 403: a client certificate is required"},
		{"with one", g, append([]string{"limits", tokenID}, mine...), 0, "5000      1h"},
		{"with a certificate of another authority", g, []string{"limits", tokenID, "--cert=" + files[6], "--key=" + files[7]}, 1, "ask the gateway"},
		{"with a certificate alone", g, []string{"limits", tokenID, mine[0]}, 2, "missing [key]"},
		{"with the key of another", g, []string{"limits", tokenID, mine[0], "--key=" + files[7]}, 1, "read the certificate in "},
	} {
		got := test.gateway.opsgate(t, test.arguments...)
		if got.code != test.code || !strings.Contains(got.out+got.err, test.want) {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

// Without Redis, each gateway admits its share, and a reset affects this gateway only.
func TestLimitsShowsTheShareWithoutRedis(t *testing.T) {
	g := serveGateway(t, `admin: {token: "${ADMIN_TOKEN}"}
rate_limit:
  store: redis
  expected_replicas: 3
  redis: {addresses: ["127.0.0.1:1"]}
  limits: [{requests: 1000, per: 1h}]
`)
	testkit.Eventually(t, "the outage of Redis begins", func() bool {
		return strings.Contains(words(g.opsgate(t, "limits", tokenID).out), "\nstore mode local")
	})
	const want = ", replicas 3, breaker state open, cause "
	if got := g.opsgate(t, "limits", tokenID); got.code != 0 || !strings.Contains(got.out, want) || !strings.Contains(words(got.out), "\nhour 1000 1h false 334 ") {
		t.Errorf("got %+v", got)
	}
	var limits admin.TokenLimits
	if err := json.Unmarshal([]byte(g.opsgate(t, "limits", tokenID, "--json").out), &limits); err != nil || limits.Store.Replicas != 3 {
		t.Errorf("got %+v, %v", limits, err)
	}
	got := g.opsgate(t, "limits", tokenID, "--reset")
	for _, want := range []string{"only the usage that this gateway counted was reset", "Redis could not be reached", "will count again"} {
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("there is no %q in %+v", want, got)
		}
	}
}
