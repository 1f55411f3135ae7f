// Package load sends one HTTP/1.1 request repeatedly over a number of connections and measures the latencies.
//
// It writes the bytes of the request as they are, so that it uses little CPU of the machine that it shares with the server. Run sends the
// next request on a connection after the response to the last one. Offer sends requests at a fixed rate, to test a server under overload.
package load
