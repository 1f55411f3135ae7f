// Package console serves the HTML page of the admin listener: current problems, the state of the gateway, its traffic of the last
// 15 minutes, and a form that explains a request.
//
// The page is one document that reads the state once a second. The traffic history is sampled from the process' own metrics every few
// seconds into bounded memory, so the request path does no work for it. Everything else is read only when a client asks, at most
// twice a second for all clients.
//
// The document contains no data of the gateway and needs no credentials. Package admin authorizes requests for the state.
package console

//go:generate go -C ../../../../.. run ./cmd/internal/gate/admin/console/runbooksgen
