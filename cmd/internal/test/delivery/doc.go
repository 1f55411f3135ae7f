// Package delivery tests what the guide webhooks and docs/integrate/notifications.md promise to subscribers, with opsbackend as a process,
// real SMTP and real HTTP receivers: the process is killed, receivers hang, and one status page has 10,000 subscribers. It has no code
// besides its tests.
package delivery
