package console

import (
	"embed"
	"fmt"
	"net/http"
	"strings"

	"opsgate/cmd/internal/gate/admin"
)

var (
	//go:embed runbooks/*.html
	runbookFiles embed.FS
	//go:embed page/runbook.css
	runbookCSS string
)

// Runbook serves a page of docs/operate/runbooks as HTML, so that the instructions can be read when everything else is unavailable.
func (c *Console) Runbook(w http.ResponseWriter, r *http.Request) {
	body, err := runbookFiles.ReadFile("runbooks/" + r.PathValue("name"))
	if err != nil {
		admin.Respond(w, http.StatusNotFound, admin.Failure{Text: "there is no such runbook", Code: "not_found"})
		return
	}
	newRunbook(string(body)).serve(w)
}

// newRunbook inserts the style into a generated page. The policy allows only this style: no script, form or connection.
func newRunbook(body string) document {
	style := paletteCSS + runbookCSS
	return document{
		body: strings.Replace(body, "{{style}}", style, 1),
		policy: fmt.Sprintf("default-src 'none'; style-src %s; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			sourceHash(style)),
	}
}
