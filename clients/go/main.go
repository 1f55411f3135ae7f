//go:build generated

// Command go calls each kind of operation of the API with the client that oapi-codegen generates.
//
// "tour" calls them; "errors" provokes errors and decodes each. Both print what they found as JSON.
// OPSCTL_URL is the address of the API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one
// without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team without the plan.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"opsgate/clients/go/ops"
)

func main() {
	commands := map[string]func(context.Context) any{"tour": tour, "errors": provoke}
	must(0, json.NewEncoder(os.Stdout).Encode(commands[os.Args[1]](context.Background())))
}

// must returns a value, or ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// newClient returns a client that sends the token with each request.
func newClient(token string, doer ops.HttpRequestDoer) *ops.ClientWithResponses {
	authorize := func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	return must(ops.NewClientWithResponses(os.Getenv("OPSCTL_URL"), ops.WithHTTPClient(doer),
		ops.WithRequestEditorFn(authorize)))
}
