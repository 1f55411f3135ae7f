package backendclient

import "google.golang.org/grpc"

// ConnectionOf returns the connection to the service with the given full name, for calls of methods by name.
func ConnectionOf(c *Clients, fullName string) *grpc.ClientConn {
	for _, s := range services() {
		if s.description.ServiceName == fullName {
			return c.upstreams[s.name].connection.Load().grpc
		}
	}
	return nil
}
