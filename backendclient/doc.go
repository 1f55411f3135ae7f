// Package backendclient holds the connections to the internal services and says what a failed call means.
//
// It promises that dialling never waits for a service, that every call has a deadline a little shorter than its caller's, that
// every failed call is an [*Error] with a code that can be trusted (a caller who hung up is Canceled, whatever the service
// said meanwhile; an answer that was too big for us is Internal and not a rate limit), and that what a service hands over
// with an error is bounded in number and length. What a client is told of it is left to the gateway.
package backendclient
