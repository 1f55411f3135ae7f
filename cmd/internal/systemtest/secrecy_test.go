package systemtest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// A token stands in the start text and in the credentials file of opsdev, which are for its user, and nowhere else.
func TestNoTokenAnywhere(t *testing.T) {
	s := start(t, launchOptions{config: highLimits})
	full := s.as(t, "full")
	all := calls(t, full)

	var seen strings.Builder
	keep := func(r response) {
		seen.Write(r.body)
		for name, values := range r.header {
			seen.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
	}
	for name, token := range s.Tokens {
		c := s.as(t, name)
		for _, o := range all {
			keep(c.send(t, o))
		}
		// Where a client may put a token by mistake.
		keep(c.get(t, "/v1/incidents?cursor="+token+"&limit=1"))
		keep(c.get(t, "/v1/audit?access_token="+token))
		keep(c.get(t, "/v1/nothing/"+token))
		keep(client{s, "", c.validator}.get(t, "/v1/me?token="+token))
		keep(client{s, token + "x", c.validator}.get(t, "/v1/me"))
	}
	metrics, err := client{system: &System{BaseURL: s.AdminURL}}.try(t.Context(), "GET", "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	keep(metrics)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	log := s.log.String()
	if strings.Count(log, "\n") < 100 {
		t.Fatalf("the log has %d lines: nothing to search", strings.Count(log, "\n"))
	}
	seen.WriteString(log)
	for name, token := range s.Tokens {
		hash := sha256.Sum256([]byte(token))
		if strings.Contains(seen.String(), token) || strings.Contains(strings.ToLower(seen.String()), hex.EncodeToString(hash[:])) {
			t.Errorf("the token %q, or its hash, was told", name)
		}
	}
}
