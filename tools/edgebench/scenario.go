package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
)

// scenario is one request that all are asked, each in its own words, and what the edge is held to.
type scenario struct {
	name string
	held
	bare []byte
	edge []byte // and of the floor, which looks at neither host nor token
}

// held is what a scenario is held to: CPU a request, as a share of the bare gateway's.
type held struct{ bar, goal float64 }

// scenarios words the requests. It asks for the list first: all must have the same work to do.
func (s *stage) scenarios(ctx context.Context, store string) ([]scenario, error) {
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
	list, single, post := held{0.45, 0.33}, held{0.65, 0.52}, held{0.80, 0.70}
	if store == storeRedis { // a POST has the bar of memory and as much more as one server
		list, single, post = held{0.55, 0.40}, held{0.85, 0.70}, held{1.00, 0.88}
	}
	one := "/v1/servers/" + listed[0].ID
	return []scenario{
		{
			name: fmt.Sprintf("list of %d", len(listed)), held: list,
			bare: s.request("GET", s.bare, "/v1/servers"+team, ""),
			edge: s.request("GET", s.edge, "/v1/servers", ""),
		},
		{
			name: "one", held: single,
			bare: s.request("GET", s.bare, one+team, ""),
			edge: s.request("GET", s.edge, one, ""),
		},
		{
			name: "POST", held: post,
			bare: s.request("POST", s.bare, "/v1/incidents", fmt.Sprintf(bareIncident, s.team)),
			edge: s.request("POST", s.edge, "/v1/incidents", edgeIncident),
		},
	}, nil
}

// One incident, in the words of the public API and in those of the proto.
const (
	edgeIncident = `{"title":"Checkout answers slowly","status":"investigating","impact":"minor",` +
		`"message":"We are looking into slow answers of the checkout."}`
	bareIncident = `{"teamId":%q,"actor":{"tokenId":"019b7a30-5c1e-7d42-9f00-000000000400","ipAddress":"127.0.0.1"},` +
		`"title":"Checkout answers slowly","status":"INCIDENT_STATUS_INVESTIGATING","impact":"INCIDENT_IMPACT_MINOR",` +
		`"message":"We are looking into slow answers of the checkout."}`
)

// request returns a whole request as it goes over the wire. Both edges get the same headers: that one reads the credential
// and the other does not is part of what is compared.
func (s *stage) request(method string, t target, path, body string) []byte {
	r := method + " " + path + " HTTP/1.1\r\nHost: " + t.address +
		"\r\nAuthorization: Bearer " + s.token + "\r\nAccept: application/json\r\n"
	if body != "" {
		r += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(r + "\r\n" + body)
}
