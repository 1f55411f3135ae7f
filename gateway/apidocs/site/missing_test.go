package site

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

func TestEveryOperationHasARecordedAnswer(t *testing.T) {
	for id := range samples.Requests() {
		if _, has := samples.Answer(id); !has {
			t.Errorf("%s has none: go test ./cmd/internal/test/docs -update", id)
		}
	}
}

// While an operation is being added, the gateway serves all pages.
func TestPagesNeedNoSamplesAndAnswers(t *testing.T) {
	document := bytes.ReplaceAll(openapi.YAML(), []byte("operationId: v1GetServer\n"), []byte("operationId: v1GetNew\n"))
	made, err := Render(document, os.DirFS("../guides"))
	testkit.Must(t, err)
	for _, path := range []string{"/docs/reference/servers/", "/docs/reference/servers.md"} {
		if text := string(made[path]); !strings.Contains(text, "v1GetNew") && !strings.Contains(text, "Get a server") {
			t.Errorf("%s lacks the operation", path)
		}
	}
}
