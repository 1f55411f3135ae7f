package conformance_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	first  = "7c98a182-f51f-543f-b2eb-e5680506ac1b"
	second = "1ae830a6-b07d-535f-a5ae-03011883bd64"
)

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fixtures.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Fixtures hold only the hashes of tokens.
func TestTokensAreLoadedFromVariablesFilesAndHashes(t *testing.T) {
	const token = "ops_live_secret"
	hash := sha256.Sum256([]byte(token))
	file := write(t, token+"\n")
	path := write(t, fmt.Sprintf(`
teams:
  - {id: %s, token: "${A_TOKEN}", rows: {servers: 3}}
  - {id: %s, token: "${file:%s}"}
revoked_token: sha256:%x
tokens:
  - {token: "${A_TOKEN}", plan: basic, scopes: [servers:read]}
revoke: {token: "${A_TOKEN}", command: [sh, -c, "echo %s; exit 1"]}
`, first, second, file, hash, token))
	f, err := conformance.Load(path, []string{"A_TOKEN=" + token, "ANOTHER=x"})
	testkit.Must(t, err)
	for _, got := range [][]byte{f.Teams[0].Token, f.Teams[1].Token, f.RevokedToken, f.Tokens[0].Hash, f.Revocable.Token} {
		if !bytes.Equal(got, hash[:]) {
			t.Errorf("hash %x, want %x", got, hash)
		}
	}
	if f.Teams[0].ID != first || f.Teams[0].Rows["servers"] != 3 || len(f.Teams[1].Rows) != 0 {
		t.Errorf("teams %+v", f.Teams)
	}
	if f.Tokens[0].Plan != identityv1.Plan_PLAN_BASIC || !slices.Equal(f.Tokens[0].Scopes, []string{"servers:read"}) {
		t.Errorf("tokens %+v", f.Tokens)
	}
	// Its output, which may contain a token, is not in the report.
	if err := f.Revocable.Revoke(t.Context()); err == nil || err.Error() != "run sh: exit status 1" {
		t.Errorf("a command that fails: %v", err)
	}
}

func TestErrorsInFixturesAreReported(t *testing.T) {
	const secret = "ops_live_topsecret"
	two := "teams: [{id: " + first + "}, {id: " + second + "%s}]\n"
	for _, test := range []struct{ name, content, want string }{
		{"nothing", "", "teams: must be two, not 0"},
		{"one team", "teams: [{id: " + first + "}]", "teams: must be two, not 1"},
		{"the same team", "teams: [{id: " + first + "}, {id: " + first + "}]", "teams[1].id: is also the id of teams[0].id"},
		{"no id", "teams: [{id: " + first + "}, {}]", "teams[1].id: is missing"},
		{"an id in upper case", fmt.Sprintf(two, ", linked_component: "+strings.ToUpper(first)+", linked_monitor: "+second),
			"teams[1].linked_component: must be a UUID in lower case"},
		{"an id in both teams", fmt.Sprintf(two, ", linked_component: "+second+", linked_monitor: "+first),
			"teams[1].linked_monitor: is also the id of teams[0].id"},
		{"a component without a monitor", fmt.Sprintf(two, ", linked_component: "+second), "linked_monitor must both be set, or none"},
		{"rows of an unknown list", fmt.Sprintf(two, ", rows: {serves: 1}"), "teams[1].rows: must be of servers, server_groups, monitors"},
		{"no row", fmt.Sprintf(two, ", rows: {servers: 0}"), "teams[1].rows.servers: must be at least 1"},
		{"an unknown key", fmt.Sprintf(two, ", sever: x"), "field sever not found"},
		{"no YAML", "teams: [", "did not find"},
		{"a token", fmt.Sprintf(two, ", token: "+secret), "teams[1].token: must be a reference"},
		{"a variable that is not set", fmt.Sprintf(two, `, token: "${NOT_SET}"`), "teams[1].token: names the variable NOT_SET, which is not set"},
		{"a file that is not there", fmt.Sprintf(two, `, token: "${file:/nowhere/at/all}"`), "teams[1].token: names a file that cannot be read"},
		{"a short hash", fmt.Sprintf(two, ", token: sha256:00ff"), "teams[1].token: must be sha256: and 64 hexadecimal digits"},
		{"a revoked token", fmt.Sprintf(two, "") + "revoked_token: " + secret, "revoked_token: must be a reference"},
		{"an unknown plan", fmt.Sprintf(two, "") + "tokens: [{token: sha256:" + strings.Repeat("00", 32) + ", plan: gold}]",
			"tokens[0].plan: must be basic or ai"},
		{"no token", fmt.Sprintf(two, "") + "tokens: [{plan: ai}]", "tokens[0].token: is missing"},
		{"a token in the tokens", fmt.Sprintf(two, "") + "tokens: [{plan: ai, token: " + secret + "}]", "tokens[0].token: must be a reference"},
		{"a token to revoke", fmt.Sprintf(two, "") + "revoke: {token: " + secret + "}", "revoke.token: must be a reference"},
		{"a command without a token", fmt.Sprintf(two, "") + "revoke: {command: [x]}", "revoke: token and command must both be set, or none"},
		{"a year of metrics", fmt.Sprintf(two, ", metrics_days: 365"), "teams[1].metrics_days: must be 0 to 30"},
		{"too much", strings.Repeat("#", 1<<20+1), "is larger than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := conformance.Load(write(t, test.content), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := conformance.Load(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil {
		t.Error("a missing file is not an error")
	}
}

func FuzzFixtures(f *testing.F) {
	const token = "ops_live_topsecret"
	example, err := os.ReadFile(exampleFixtures)
	testkit.Must(f, err)
	f.Add(string(example))
	f.Add("teams: [{id: " + first + "}, {id: " + second + ", token: sha256:00}]\nrevoked_token: ${file:/dev/null}")
	f.Add("teams: [{id: " + first + ", token: " + token + "}, {id: " + second + ", linked_component: x, linked_monitor: y}]")
	f.Add("*" + token)
	namesKey := regexp.MustCompile(`field .* not found|mapping key .* already defined`)
	form := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	f.Fuzz(func(t *testing.T, content string) {
		loaded, err := conformance.Load(write(t, content), []string{"HARBOUR_TOKEN=" + token, "LIGHTHOUSE_TOKEN=b", "REVOKED_TOKEN=c"})
		if err != nil {
			if !namesKey.MatchString(err.Error()) && strings.Contains(err.Error(), token) {
				t.Errorf("the error contains the token: %v", err)
			}
			return
		}
		teams := map[string]string{} // by id
		for _, team := range loaded.Teams {
			for _, id := range []string{team.LinkedComponent, team.LinkedMonitor, team.ID} {
				if id == "" {
					continue
				}
				if !form.MatchString(id) || teams[id] != "" && teams[id] != team.ID {
					t.Errorf("loaded %+v", loaded)
				}
				teams[id] = team.ID
			}
		}
		for _, hash := range [][]byte{loaded.Teams[0].Token, loaded.Teams[1].Token, loaded.RevokedToken, loaded.Revocable.Token} {
			if len(hash) != 0 && len(hash) != sha256.Size {
				t.Errorf("hash %x", hash)
			}
		}
	})
}
