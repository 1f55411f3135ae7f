// Package load keeps a number of connections busy with one request, over and over, and times the answers.
//
// It speaks only as much HTTP/1.1 as a server's plain answers need (a status line, headers, a body of known length or in
// chunks), so that it takes little of the machine that it shares with the server under test. The next request of a connection
// goes out when the answer to the last one is in: the load is bounded by the number of connections and by time. Offer asks at a rate
// instead, for a server that is to be asked more than it can answer.
package load
