package system

import (
	"net/http"
	"strings"
	"testing"

	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

// Readers send the examples of request bodies to opsdev as they are, so the resources that they
// name must be in the demo data.
func TestExamplesOfBodiesCanBeSent(t *testing.T) {
	document, err := openapi.Read(openapi.YAML())
	testkit.Must(t, err)
	sent := 0
	for _, o := range document.Operations {
		path := o.Path
		for _, p := range o.Parameters {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", p.Example)
		}
		for _, example := range o.RequestBody.Content.JSON.Examples {
			r := shared.as(t, "full").do(t, o.Method, path, string(example.Value.Value), "Content-Type: application/json")
			if r.status != http.StatusOK {
				t.Errorf("%s %s, example %s: %d %s", o.Method, path, example.Name, r.status, r.body)
			}
			sent++
		}
	}
	if sent != 4 {
		t.Errorf("%d examples were sent", sent)
	}
}
