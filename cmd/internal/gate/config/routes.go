package config

import (
	"regexp"
	"strings"

	"opsgate/gateway/openapi"
)

// Routes is bounds by operation id.
type Routes map[string]Route

// A Route has the bounds of one operation.
type Route struct {
	Timeout Duration `yaml:"timeout" min:"20ms" max:"5m" doc:"Time to answer a request instead of http.request_timeout."`
}

var operationID = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

func (Routes) names() nameForm {
	return nameForm{pattern: operationID, words: "an operation id, for example v1ListServers"}
}

// operations returns the ids of all operations in the OpenAPI document.
func operations() []string {
	var ids []string
	for line := range strings.Lines(string(openapi.YAML())) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "operationId: "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
