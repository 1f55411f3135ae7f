//go:build generated

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"opsgate/clients/go/ops"
)

// provoke returns the code of each error that a client can cause, with the details that belong to
// it.
func provoke(ctx context.Context) any {
	plain := &http.Client{}
	client := newClient(os.Getenv("OPSCTL_TOKEN"), plain)
	body := ops.IncidentInput{Title: "T", Status: ops.Resolved, Impact: ops.None, Message: "M"}

	unknown := must(newClient("ops_live_unknown", plain).V1MeWithResponse(ctx))
	reader := must(newClient(os.Getenv("OPSCTL_READ_TOKEN"), plain).V1CreateIncidentWithResponse(ctx, nil, body))
	noPlan := must(newClient(os.Getenv("OPSCTL_NO_PLAN_TOKEN"), plain).V1MeWithResponse(ctx))
	missing := must(client.V1GetServerWithResponse(ctx, uuid.New()))
	body.Message = strings.Repeat("M", 200_000)
	large := must(client.V1CreateIncidentWithResponse(ctx, nil, body))
	form := must(client.V1CreateIncidentWithBodyWithResponse(ctx, nil, "text/plain", strings.NewReader("M")))
	body.Title, body.Message = "", ""
	invalid := must(client.V1CreateIncidentWithResponse(ctx, nil, body))
	retryAfter := exceed(ctx, newClient(os.Getenv("OPSCTL_READ_TOKEN"), plain))
	return []string{
		unknown.JSON401.Code,
		reader.JSON403.Code + " required=" + *reader.JSON403.Details.Required,
		noPlan.JSON403.Code + " requiredPlan=" + *noPlan.JSON403.Details.RequiredPlan,
		missing.JSON404.Code,
		large.JSON413.Code,
		form.JSON415.Code,
		invalid.JSON422.Code + " " + strings.Join(slices.Sorted(maps.Keys(invalid.JSON422.Details)), ","),
		retryAfter,
	}
}

// exceed sends requests until one exceeds the limit.
func exceed(ctx context.Context, client *ops.ClientWithResponses) string {
	for range 1000 {
		me := must(client.V1MeWithResponse(ctx))
		if me.JSON429 != nil {
			return fmt.Sprintf("%s retry-after=%d", me.JSON429.Code, me.Headers429.RetryAfter)
		}
	}
	return "no request exceeded the limit"
}
