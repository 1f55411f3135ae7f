package system

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// Tokens are only in the start text and the credentials file of opsdev.
func TestTokensAreNeverReturnedOrLogged(t *testing.T) {
	s := start(t, launchOptions{config: highLimits})
	full := s.as(t, "full")
	all := calls(t, full)

	var output strings.Builder
	keep := func(r response) {
		output.Write(r.body)
		for name, values := range r.header {
			output.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
	}
	for name, token := range s.Tokens {
		c := s.as(t, name)
		for _, o := range all {
			keep(c.send(t, o))
		}
		// Places where a client may put a token by mistake.
		keep(c.get(t, "/v1/incidents?cursor="+token+"&limit=1"))
		keep(c.get(t, "/v1/audit?access_token="+token))
		keep(c.get(t, "/v1/nothing/"+token))
		keep(client{s, "", c.validator}.get(t, "/v1/me?token="+token))
		keep(client{s, token + "x", c.validator}.get(t, "/v1/me"))
	}
	metrics, err := client{system: &System{BaseURL: s.AdminURL}}.try(t.Context(), "GET", "/metrics", "")
	testkit.Must(t, err)
	keep(metrics)
	testkit.Must(t, s.process.Stop())
	log := s.process.Log.String()
	if strings.Count(log, "\n") < 100 {
		t.Fatalf("the log has only %d lines", strings.Count(log, "\n"))
	}
	output.WriteString(log)
	for name, token := range s.Tokens {
		hash := sha256.Sum256([]byte(token))
		if strings.Contains(output.String(), token) || strings.Contains(strings.ToLower(output.String()), hex.EncodeToString(hash[:])) {
			t.Errorf("the output contains the token %q or its hash", name)
		}
	}
}
