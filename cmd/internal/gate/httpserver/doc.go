// Package httpserver serves HTTP on one listener and limits the resources that clients can use:
// connections, the bytes of incomplete headers and handshakes, the time for a header, a body and a
// response. At the limit of connections it evicts the connection that has been without an
// authenticated request for the longest time. So a flood of connections does not lock out clients
// with tokens.
//
// [Server.ShutDown] serves each request that has arrived. It waits for the first requests of new
// connections, and announces the end to clients before it closes their connections.
package httpserver
