//go:build generated

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"opsgate/tools/clients/go/ops"
)

// provoke returns the code of each error that a client can cause, with the details that belong to it.
func provoke(ctx context.Context) ([]string, error) {
	plain := &http.Client{}
	client := newClient(os.Getenv("OPSCTL_TOKEN"), plain)
	body := ops.NewIncident{Title: "T", Status: ops.Resolved, Impact: ops.None, Message: "M"}

	unknown, err := newClient("ops_live_unknown", plain).V1MeWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	reader, err := newClient(os.Getenv("OPSCTL_READ_TOKEN"), plain).V1CreateIncidentWithResponse(ctx, nil, body)
	if err != nil {
		return nil, err
	}
	noPlan, err := newClient(os.Getenv("OPSCTL_NO_PLAN_TOKEN"), plain).V1MeWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	missing, err := client.V1GetServerWithResponse(ctx, uuid.New())
	if err != nil {
		return nil, err
	}
	body.Message = strings.Repeat("M", 200_000)
	large, err := client.V1CreateIncidentWithResponse(ctx, nil, body)
	if err != nil {
		return nil, err
	}
	form, err := client.V1CreateIncidentWithBodyWithResponse(ctx, nil, "text/plain", strings.NewReader("M"))
	if err != nil {
		return nil, err
	}
	body.Title, body.Message = "", ""
	invalid, err := client.V1CreateIncidentWithResponse(ctx, nil, body)
	if err != nil {
		return nil, err
	}
	retryAfter, err := exceed(ctx, newClient(os.Getenv("OPSCTL_READ_TOKEN"), plain))
	if err != nil {
		return nil, err
	}
	return []string{
		unknown.JSON401.Code,
		reader.JSON403.Code + " required=" + *reader.JSON403.Details.Required,
		noPlan.JSON403.Code + " requiredPlan=" + *noPlan.JSON403.Details.RequiredPlan,
		missing.JSON404.Code,
		large.JSON413.Code,
		form.JSON415.Code,
		invalid.JSON422.Code + " " + strings.Join(slices.Sorted(maps.Keys(invalid.JSON422.Details)), ","),
		retryAfter,
	}, nil
}

// exceed sends requests until one exceeds the limit.
func exceed(ctx context.Context, client *ops.ClientWithResponses) (string, error) {
	for range 1000 {
		me, err := client.V1MeWithResponse(ctx)
		if err != nil {
			return "", err
		}
		if me.JSON429 != nil {
			return fmt.Sprintf("%s retry-after=%d", me.JSON429.Code, me.Headers429.RetryAfter), nil
		}
	}
	return "", errors.New("no request exceeded the limit")
}
