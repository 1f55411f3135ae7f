// Package breaker provides the circuit breakers of the methods of a service.
//
// A breaker opens when the attempts of a method fail: those of all teams, or those of one team
// while no other team's succeed. While it is not closed it refuses attempts of failing teams only,
// except a few, and those of other teams use at most a tenth of the service's in-flight slots.
// Whether a failure may be due to the data of its team is decided by the caller ([Result]).
package breaker
