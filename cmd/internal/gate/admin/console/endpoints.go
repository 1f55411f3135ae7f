package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
)

// EndpointView is an address of an internal service.
type EndpointView struct {
	Address  string                      `json:"address"`
	State    backendclient.EndpointState `json:"state"`
	Since    time.Time                   `json:"since"`           // when the state began
	InFlight int                         `json:"in_flight"`       // calls; failed ones count for a second longer
	Cause    string                      `json:"cause,omitempty"` // why it is not ready
	Until    *time.Time                  `json:"until,omitempty"` // end of an ejection
}

// endpointViews returns nil for a dependency without endpoints.
func endpointViews(list []backendclient.EndpointStatus) []EndpointView {
	var views []EndpointView
	for _, e := range list {
		v := EndpointView{
			Address: e.Address, State: e.State, Since: e.Since.UTC().Truncate(time.Millisecond), InFlight: e.InFlight, Cause: e.Cause,
		}
		if !e.WrongSince.IsZero() {
			v.Cause = "wrong service at this address"
		}
		if !e.EjectedUntil.IsZero() {
			until := e.EjectedUntil.UTC().Truncate(time.Millisecond)
			v.Until = &until
		}
		views = append(views, v)
	}
	return views
}

// diagnoseLookup returns the finding that the name of a service does not resolve.
func diagnoseLookup(name string, d admin.Dependency, now time.Time) *Finding {
	if d.FailedLookup == nil {
		return nil
	}
	f := &Finding{
		Key: "dns:" + name, Verdict: verdictImpaired, Runbook: "services.md#the-name-of-a-service-does-not-resolve",
		Text: name + ": its name does not resolve" + forTime(d.FailedLookup.Since, now), Detail: d.FailedLookup.Cause,
	}
	if !hasReadyEndpoint(d) {
		lost := adviceFor("connection:" + name)
		f.Verdict, f.Impact, f.Deadline = verdictBroken, lost.impact, cmp.Or(lost.deadline, "it stays so until the name resolves")
	}
	return f
}

// diagnoseEndpoints returns the finding that some endpoints of a service that is available do not get calls. An endpoint that has not been
// connected for connectTimeout counts: shorter interruptions belong to every deployment of a service.
func diagnoseEndpoints(name string, d admin.Dependency, now time.Time) *Finding {
	count := make(map[backendclient.EndpointState]int)
	var details []string
	for _, e := range d.Endpoints {
		if e.State == backendclient.EndpointReady || e.State != backendclient.EndpointEjected && now.Sub(e.Since) < connectTimeout {
			continue
		}
		count[e.State]++
		detail := e.Address + " is " + string(e.State) + forTime(e.Since, now)
		if e.Cause != "" {
			detail += ": " + e.Cause
		}
		details = append(details, detail)
	}
	if !d.OK || len(details) == 0 {
		return nil
	}
	var states []string
	for _, state := range backendclient.EndpointStates() {
		if n := count[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
		}
	}
	slices.Sort(details)
	return &Finding{
		Key: "endpoints:" + name, Verdict: verdictImpaired, Detail: joined(details),
		Text:    fmt.Sprintf("%s: of %s, %s", name, counted(len(d.Endpoints), "endpoint"), strings.Join(states, ", ")),
		Runbook: "services.md#one-endpoint-of-a-service-fails",
	}
}

// hasReadyEndpoint reports whether a service has an endpoint that gets calls.
func hasReadyEndpoint(d admin.Dependency) bool {
	return slices.ContainsFunc(d.Endpoints, func(e backendclient.EndpointStatus) bool { return e.State == backendclient.EndpointReady })
}
