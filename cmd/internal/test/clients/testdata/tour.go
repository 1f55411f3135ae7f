// Command tour uses the package opsgate/client: "tour" calls each kind of operation, "errors"
// provokes errors, "settings" uses wrong settings, "answers" meets unusual answers, "pace" sends
// requests and prints the errors, "webhook" verifies.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"opsgate/client"
)

func main() {
	commands := map[string]func(context.Context) any{"tour": tour, "errors": provoke, "settings": settings,
		"answers": answers, "pace": pace, "webhook": webhook}
	if err := json.NewEncoder(os.Stdout).Encode(commands[os.Args[1]](context.Background())); err != nil {
		log.Fatal(err)
	}
}

func newClient(token string) *client.Client { return must(client.New(os.Getenv("OPSCTL_URL"), token)) }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func count[T any](items iter.Seq2[T, error]) (n int) {
	for _, err := range items {
		must(n, err)
		n++
	}
	return n
}

func tour(ctx context.Context) any {
	c := newClient(os.Getenv("OPSCTL_TOKEN"))
	me := must(c.Me(ctx))
	servers := must(c.ListServers(ctx))
	database := slices.IndexFunc(servers, func(s client.Server) bool { return s.Name == "db-primary" })
	server := must(c.GetServer(ctx, servers[database].ID))
	anHourAgo := time.Now().Add(-time.Hour)
	monitors := must(c.ListMonitors(ctx))
	checks := must(c.ListMonitorChecks(ctx, monitors[0].ID, client.ListMonitorChecksParams{Since: anHourAgo}))
	pages := must(c.ListStatusPages(ctx))
	page := must(c.GetStatusPage(ctx, pages[0].ID))
	key, quiet := rand.Text(), false
	opened := client.IncidentInput{
		Title: "Deployment failed", Status: client.IncidentStatusInvestigating, Impact: client.IncidentImpactMinor,
		Message: "It failed.",
	}
	created := must(c.CreateIncident(ctx, opened, key))
	again := must(c.CreateIncident(ctx, opened, key))
	must(c.AddIncidentUpdate(ctx, created.ID,
		client.IncidentUpdateInput{Status: client.IncidentStatusResolved, Message: "It succeeded.",
			NotifySubscribers: &quiet}, ""))
	incident := must(c.GetIncident(ctx, created.ID))
	points := must(c.GetServerMetrics(ctx, server.ID, client.GetServerMetricsParams{Range: client.MetricsRange1h})).Points
	return map[string]any{
		"scopes":            len(me.Scopes),
		"servers":           len(servers),
		"server":            server.Name,
		"groups":            len(must(c.ListServerGroups(ctx))),
		"scheduledCommands": len(must(c.ListServerScheduledCommands(ctx, server.ID))),
		"commands":          count(c.AllServerCommands(ctx, server.ID, client.ListServerCommandsParams{PageSize: 10})),
		"monitors":          len(monitors),
		"pages":             len(pages),
		"components":        len(page.Components),
		"pageIncidents":     len(must(c.ListStatusPageIncidents(ctx, page.ID))),
		"incidents":         count(c.AllIncidents(ctx, client.ListIncidentsParams{Limit: 50})),
		"auditEntries":      count(c.AllAudit(ctx, client.ListAuditParams{Action: "incident.", Limit: 50})),
		"updates":           len(incident.Updates),
		"replayed":          again.ID == created.ID,
		"resolved": incident.Status == client.IncidentStatusResolved &&
			!incident.ResolvedAt.Before(incident.CreatedAt),
		"recent": points[len(points)-1].At.After(anHourAgo) && checks[0].CheckedAt.After(anHourAgo),
	}
}

func provoke(ctx context.Context) any {
	c, reader := newClient(os.Getenv("OPSCTL_TOKEN")), newClient(os.Getenv("OPSCTL_READ_TOKEN"))
	incident := client.IncidentInput{Title: "T", Status: client.IncidentStatusResolved, Impact: client.IncidentImpactNone,
		Message: "M"}
	long, empty := incident, incident
	long.Message, empty.Title, empty.Message = strings.Repeat("M", 200_000), "", ""
	var found []string
	for _, call := range []func() (any, error){
		func() (any, error) { return newClient("ops_live_unknown").Me(ctx) },
		func() (any, error) { return reader.CreateIncident(ctx, incident, "") },
		func() (any, error) { return newClient(os.Getenv("OPSCTL_NO_PLAN_TOKEN")).Me(ctx) },
		func() (any, error) { return c.GetServer(ctx, "0b411d95-7d62-5ca5-9268-573f3d300035") },
		func() (any, error) { return c.CreateIncident(ctx, long, "") },
		func() (any, error) { return c.CreateIncident(ctx, empty, "") },
		func() (any, error) { return reader.Me(ctx) },
	} {
		_, err := call()
		var refused *client.Error
		if !errors.As(err, &refused) {
			log.Fatal(err)
		}
		text := strings.Join(slices.Sorted(maps.Keys(refused.Details)), ",")
		switch refused.Status {
		case http.StatusForbidden:
			text += "=" + refused.Details[text]
		case http.StatusTooManyRequests:
			text = fmt.Sprintf("retry-after=%.0f", refused.RetryAfter.Seconds())
		}
		text = strings.TrimSpace(fmt.Sprintf("%d %s %s", refused.Status, refused.Code, text))
		if refused.RequestID != "" {
			text += " with a request id"
		}
		found = append(found, text)
	}
	return found
}

func settings(ctx context.Context) any {
	var wrong [][2]string
	must(0, json.Unmarshal([]byte(os.Args[2]), &wrong))
	var found []string
	for _, pair := range wrong {
		_, err := client.New(pair[0], pair[1])
		found = append(found, err.Error())
	}
	_, err := client.VerifyWebhook("no secret", nil, nil)
	found = append(found, err.Error())
	_, err = newClient("secret").Me(ctx)
	return append(found, fmt.Sprint("unsafe ", strings.Contains(err.Error(), "certificate")))
}

func answers(ctx context.Context) any {
	c := newClient(os.Getenv("OPSCTL_TOKEN"))
	hasty := c.WithRetrier(&client.Retrier{HTTP: http.Client{Timeout: time.Second / 2}})
	found := []string{must(newClient(os.Getenv("OPSCTL_TOKEN")).Me(ctx)).TokenID,
		fmt.Sprint(len(must(hasty.ListServerGroups(ctx))))}
	incidents := c.AllIncidents(ctx, client.ListIncidentsParams{})
	found = append(found, fmt.Sprintf("[%d, %d]", count(incidents), count(incidents)))
	found = append(found, fmt.Sprint(len(must(newClient(os.Getenv("OPSCTL_TOKEN")).ListStatusPages(ctx)))))
	var refused *client.Error
	if _, err := c.WithRetrier(&client.Retrier{MaxWait: 2 * time.Second}).GetServer(ctx, "id"); errors.As(err, &refused) {
		found = append(found, fmt.Sprint(refused.Status))
	}
	if _, err := c.ListServers(ctx); errors.As(err, &refused) {
		found = append(found, fmt.Sprintf("%d %s %s", refused.Status, refused.Message, refused.RequestID))
	}
	conditional := must(http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("OPSCTL_URL")+"/v1/monitors", nil))
	conditional.Header.Set("If-None-Match", `"a"`)
	if _, err := new(client.Retrier).Do(conditional); errors.As(err, &refused) {
		found = append(found, fmt.Sprint(refused.Status))
	}
	conditional.Header.Set("Authorization", "Bearer secret\n")
	_, err := new(client.Retrier).Do(conditional)
	return append(found, strings.ReplaceAll(err.Error(), "secret", "the token"))
}

func pace(ctx context.Context) any {
	c, failed := newClient(os.Getenv("OPSCTL_TOKEN")), []string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range must(strconv.Atoi(os.Args[3])) {
		all.Go(func() {
			for range must(strconv.Atoi(os.Args[2])) {
				if _, err := c.Me(ctx); err != nil {
					mu.Lock()
					failed = append(failed, err.Error())
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return failed
}

func webhook(context.Context) any {
	var found []string
	for _, path := range os.Args[2:] {
		var sent struct {
			Headers map[string]string
			Body    string
		}
		must(0, json.Unmarshal(must(os.ReadFile(path)), &sent))
		header := http.Header{}
		for name, value := range sent.Headers {
			header.Set(name, value)
		}
		payload, err := client.VerifyWebhook(os.Getenv("WEBHOOK_SECRET"), header, []byte(sent.Body))
		if errors.Is(err, client.ErrWebhook) {
			found = append(found, strings.TrimPrefix(err.Error(), "no valid webhook: "))
			continue
		}
		must(0, err)
		found = append(found, payload.Type+" "+payload.Data.Incident.Title)
	}
	return found
}
