// Package admin is what operators ask a gateway on its own listener: is it alive, is it ready, what has it counted, and what is
// it doing right now.
//
// Ready means that requests are served. An internal service that is away makes the gateway degraded and no less ready: what the
// other services answer is still answered, known tokens still work, and a load balancer that took every gateway out at once
// would make an outage of it. From the moment a gateway is told to end it is not ready, while it still serves.
//
// Nothing here asks who is calling: the listener must not be reachable by strangers.
package admin
