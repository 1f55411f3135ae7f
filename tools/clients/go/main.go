//go:build generated

// Command go calls each kind of operation of the API with the client that oapi-codegen generates.
//
// "tour" calls them; "errors" provokes errors and decodes each. Both print what they found as JSON. OPSCTL_URL is the address of
// the API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team without
// the plan.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"opsgate/tools/clients/go/client"
	"opsgate/tools/clients/go/ops"
)

func main() {
	if err := run(context.Background(), os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		var found any
		var err error
		switch command {
		case "tour":
			found, err = tour(ctx, newClient(os.Getenv("OPSCTL_TOKEN"), &client.Retrier{}))
		case "errors":
			found, err = provoke(ctx)
		default:
			err = fmt.Errorf("unknown command %q", command)
		}
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// newClient returns a client that sends the token with each request.
func newClient(token string, doer ops.HttpRequestDoer) *ops.ClientWithResponses {
	authorize := func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	generated, err := ops.NewClientWithResponses(os.Getenv("OPSCTL_URL"), ops.WithHTTPClient(doer), ops.WithRequestEditorFn(authorize))
	if err != nil {
		panic(err) // no option fails
	}
	return generated
}
