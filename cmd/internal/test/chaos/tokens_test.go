package chaos

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
)

// administer runs an opsbackend command on the data of a backend, which may be running, and returns its output.
func administer(t *testing.T, data string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program("opsbackend"), append(args, "--data-dir="+data)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("opsbackend %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// createToken creates a token with all scopes in the team of the token "full".
func createToken(t *testing.T, data string) demo.Token {
	t.Helper()
	listed := administer(t, data, "token", "list")
	text := createText(t, data, teamOf(t, listed))
	after := administer(t, data, "token", "list")
	for line := range strings.Lines(after) {
		if id := strings.Fields(line)[0]; !strings.Contains(listed, id) {
			return demo.Token{Name: "chaos", ID: id, Text: text}
		}
	}
	t.Fatal("the token that was created is not listed")
	return demo.Token{}
}

// createTokens creates n tokens in the shared backend, and returns their texts by name.
func createTokens(t *testing.T, n int) map[string]string {
	t.Helper()
	team := teamOf(t, administer(t, shared.data, "token", "list"))
	texts := make(map[string]string, n)
	for i := range n {
		texts[fmt.Sprintf("chaos-%02d", i)] = createText(t, shared.data, team)
	}
	return texts
}

// teamOf returns the team of the token "full" in the output of token list.
func teamOf(t *testing.T, listed string) string {
	t.Helper()
	for line := range strings.Lines(listed) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == tokens(t)["full"].ID {
			return fields[1]
		}
	}
	t.Fatalf("the token full is not listed:\n%s", listed)
	return ""
}

func createText(t *testing.T, data, team string) string {
	t.Helper()
	scopes := make([]string, 0, len(authn.AllScopes()))
	for _, scope := range authn.AllScopes() {
		scopes = append(scopes, string(scope))
	}
	return administer(t, data, "token", "create", "--team="+team, "--scopes="+strings.Join(scopes, ","), "--name=chaos")
}

func revokeToken(t *testing.T, data, id string) {
	t.Helper()
	administer(t, data, "token", "revoke", id)
}

// me calls /v1/me.
func me(ctx context.Context, client *http.Client, base, token string) response {
	return fetch(ctx, client, base+"/v1/me", token)
}
