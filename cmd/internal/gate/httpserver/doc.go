// Package httpserver serves HTTP on one listener and limits what each client can occupy:
// connections, the bytes of incomplete headers and handshakes, the time for a header, a body and a
// response. At the limit of connections it evicts the one that has gone longest without an
// authenticated request, so a flood of connections does not lock out clients with tokens.
//
// [Server.ShutDown] serves each request that has arrived: it waits for the first requests of new
// connections, and announces the end to clients before it closes their connections.
package httpserver
