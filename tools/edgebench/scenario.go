package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
)

// scenario is one request, as bytes for each edge, and the bounds of its cost.
type scenario struct {
	name string
	bounds
	bare []byte
	edge []byte // also for the floor, which ignores host and token
}

// bounds limit the CPU time of a request, divided by that of the bare gateway. With -enforce, a ratio above bar fails.
// The goal is only printed.
type bounds struct{ bar, goal float64 }

// scenarios returns the requests. It returns an error unless all edges return equally long lists.
func (s *testbed) scenarios(ctx context.Context, store string) ([]scenario, error) {
	var listed []struct{ ID string }
	if err := s.get(ctx, s.edge, "/v1/servers", &listed); err != nil {
		return nil, err
	}
	team := "?team_id=" + url.QueryEscape(s.team)
	var bareListed struct{ Servers []json.RawMessage }
	if err := s.get(ctx, s.bare, "/v1/servers"+team, &bareListed); err != nil {
		return nil, err
	}
	var floorListed struct{ Servers []json.RawMessage }
	if err := s.get(ctx, s.floor, "/v1/servers", &floorListed); err != nil {
		return nil, err
	}
	if n, bare, floor := len(listed), len(bareListed.Servers), len(floorListed.Servers); n == 0 || n != bare || n != floor {
		return nil, fmt.Errorf("the edge lists %d servers, the bare gateway %d, the floor %d", n, bare, floor)
	}
	list, single, post := bounds{0.45, 0.33}, bounds{0.65, 0.52}, bounds{0.80, 0.70}
	if store == storeRedis { // the bar of a POST grows as much as that of one server
		list, single, post = bounds{0.55, 0.40}, bounds{0.85, 0.70}, bounds{1.00, 0.88}
	}
	one := "/v1/servers/" + listed[0].ID
	return []scenario{
		{
			name: fmt.Sprintf("list of %d", len(listed)), bounds: list,
			bare: s.request("GET", s.bare, "/v1/servers"+team, ""),
			edge: s.request("GET", s.edge, "/v1/servers", ""),
		},
		{
			name: "one", bounds: single,
			bare: s.request("GET", s.bare, one+team, ""),
			edge: s.request("GET", s.edge, one, ""),
		},
		{
			name: "POST", bounds: post,
			bare: s.request("POST", s.bare, "/v1/incidents", fmt.Sprintf(bareIncident, s.team)),
			edge: s.request("POST", s.edge, "/v1/incidents", edgeIncident),
		},
	}, nil
}

// One incident, as the public API and as the proto encode it.
const (
	edgeIncident = `{"title":"Checkout answers slowly","status":"investigating","impact":"minor",` +
		`"message":"We are looking into slow answers of the checkout."}`
	bareIncident = `{"teamId":%q,"actor":{"tokenId":"019b7a30-5c1e-7d42-9f00-000000000400","ipAddress":"127.0.0.1"},` +
		`"title":"Checkout answers slowly","status":"INCIDENT_STATUS_INVESTIGATING","impact":"INCIDENT_IMPACT_MINOR",` +
		`"message":"We are looking into slow answers of the checkout."}`
)

// request returns the bytes of a request. Both edges get the same headers: reading the credential is part of the compared cost.
func (s *testbed) request(method string, t target, path, body string) []byte {
	r := method + " " + path + " HTTP/1.1\r\nHost: " + t.address +
		"\r\nAuthorization: Bearer " + s.token + "\r\nAccept: application/json\r\n"
	if body != "" {
		r += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(r + "\r\n" + body)
}
