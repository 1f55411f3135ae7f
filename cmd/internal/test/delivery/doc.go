// Package delivery tests notifications with opsbackend as a process, real SMTP and real HTTP
// receivers: the process is killed, its log is closed, receivers hang, and one status page has
// 10,000 subscribers. The order, the retries and the end of deliveries are proved by the model in
// cmd/internal/backend/delivery. The package has no code besides its tests.
package delivery
