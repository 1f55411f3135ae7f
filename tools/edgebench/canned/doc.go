// Package canned is a backend that answers every call at once with the same message, so that its own cost does not affect the comparison.
//
// It serves the calls of the comparison over gRPC: a list of 20 servers, one server, the creation of an incident, and the calls of the
// identity service. Every token is valid and belongs to one principal with all scopes and the AI plan. Other calls are Unimplemented.
package canned
