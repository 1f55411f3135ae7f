// Package gateway is the public HTTP edge: the route table, the checks that every request passes, the decoding of paths,
// queries and bodies, the views that responses are made of, and the one contract of errors.
//
// A request goes one way. The engine finds its row in the route table; the stages in pipeline.go look at it in the order that
// the contract names; the row's handler decodes, calls one internal service and returns a reply or an error; and one
// writer, in respond.go, turns either into bytes. Handlers never see the response writer, and nothing but the writer knows
// of headers.
//
// What a token means, what a limit allows and how a service is called are left to the packages authn, ratelimit and
// backendclient.
package gateway
