package backendclient

import "google.golang.org/grpc"

// ConnectionOf returns a connection of the clients, for methods that are known by their names alone.
func ConnectionOf(c *Clients) grpc.ClientConnInterface {
	under := &generation{Settings: Settings{}.withDefaults()}
	under.Retries = RetrySettings{Max: 1, Budget: 1, Backoff: 1}
	return connectionUnder{c.byService[fleet], under.callOptions()}
}
