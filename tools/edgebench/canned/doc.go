// Package canned is a backend that answers at once and always the same: what it costs to serve a request through an edge is
// then the edge's cost, not a database's.
//
// It serves the calls that the comparison makes, over real gRPC: a list of 20 servers, one server, the creation of an
// incident, and the identity calls that an authenticating edge needs. Any token stands for the same principal, with all
// scopes and the AI plan. Every other call is Unimplemented.
package canned
