// Package admin is what operators ask a gateway on its own listener: is it alive, is it ready, what has it counted, what is it
// doing right now; why a request is refused, what is left of a token's limits, and what the gateway is configured to do.
//
// Ready means that requests are served. An internal service that is away makes the gateway degraded and no less ready: what the
// other services answer is still answered, known tokens still work, and a load balancer that took every gateway out at once
// would make an outage of it. From the moment a gateway is told to end it is not ready, while it still serves.
//
// Whoever asks shows that they may, by a token, a certificate or both, as the configuration has it; only the two probes ask for
// nothing. Pages of other sites cannot ask through an operator's browser. The package knows neither limits nor routes: it asks an
// [Inspector], which the wiring provides.
package admin
