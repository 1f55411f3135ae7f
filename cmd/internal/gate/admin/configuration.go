package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/config"
)

// Configuration is the configuration in force.
type Configuration struct {
	Version    string    `json:"version"`
	Since      time.Time `json:"since"` // when the version became active
	File       string    `json:"file"`  // "" for none
	LastReload *Reload   `json:"last_reload"`

	Certificates []config.Certificate `json:"certificates,omitempty"` // in use
	Values       []config.Value       `json:"values,omitempty"`       // all keys; nil in the State
}

// The outcomes of a reload.
const (
	ReloadApplied   = "applied"   // the configuration changed
	ReloadUnchanged = "unchanged" // the configuration is the same as before
	ReloadRefused   = "refused"   // the configuration is invalid; the old one stays active
)

// Reload is an attempt to apply a changed configuration.
type Reload struct {
	At       time.Time `json:"at"`
	Why      string    `json:"why"`
	Outcome  string    `json:"outcome"`
	Keys     []string  `json:"keys,omitempty"` // that were refused
	Problems []string  `json:"problems,omitempty"`
}

func (a *Admin) config(w http.ResponseWriter, r *http.Request) {
	active := a.options.Active()
	c := active.Configuration
	c.Values = active.Loaded.Effective()
	if p := read(r); len(p.problems) > 0 || !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		respond(w, p.problems, func() any { return c })
		return
	}
	setHeader(w, "text/plain; charset=utf-8")
	_, _ = w.Write(c.text())
}

// text returns the configuration as text: one key per line, with the origin of its value.
func (c Configuration) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# version %s, in force since %s\n", c.Version, c.Since.Format(time.RFC3339))
	if c.File != "" {
		fmt.Fprintf(&b, "# file %s\n", c.File)
	}
	if reload := c.LastReload; reload != nil {
		fmt.Fprintf(&b, "# last reload %s (%s): %s\n", reload.At.Format(time.RFC3339), reload.Why, reload.Outcome)
		for _, problem := range reload.Problems {
			fmt.Fprintf(&b, "#   %s\n", problem)
		}
	}
	for _, v := range c.Values {
		fmt.Fprintln(&b, v)
	}
	return b.Bytes()
}
