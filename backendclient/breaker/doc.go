// Package breaker provides the circuit breakers of the methods of a service.
//
// A breaker opens when the attempts of a method fail, either of all teams, or of one team while no
// other team's attempts succeed. While a breaker is not closed, it refuses attempts of failing
// teams, except a few. All attempts that it allows use at most a tenth of the service's in-flight
// slots, except those of other teams while it is open for one. The caller decides whether the data
// of a team may be the cause of a failure ([Result]).
//
// Package backendclient tests the breakers with calls: breaker_test.go and teams_test.go.
package breaker
