package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi"
)

// Readers send the examples of request bodies to opsdev as they are, so the resources that they name must be in the demo data.
func TestExamplesOfBodiesCanBeSent(t *testing.T) {
	var document struct {
		Paths map[string]struct {
			Parameters []struct {
				Ref string `json:"$ref"`
			}
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Examples map[string]struct{ Value json.RawMessage }
					}
				}
			}
		}
		Components struct {
			Parameters map[string]struct{ Example any }
		}
	}
	testkit.Must(t, json.Unmarshal(openapi.JSON(), &document))
	sent := 0
	for path, item := range document.Paths {
		for _, p := range item.Parameters {
			name := strings.TrimPrefix(p.Ref, "#/components/parameters/")
			path = strings.ReplaceAll(path, "{id}", fmt.Sprint(document.Components.Parameters[name].Example))
		}
		for name, example := range item.Post.RequestBody.Content["application/json"].Examples {
			r := programs.shared.as(t, "full").do(t, http.MethodPost, path, string(example.Value), "Content-Type: application/json")
			if r.status != http.StatusOK {
				t.Errorf("POST %s, example %s: %d %s", path, name, r.status, r.body)
			}
			sent++
		}
	}
	if sent != 4 {
		t.Errorf("%d examples were sent", sent)
	}
}
