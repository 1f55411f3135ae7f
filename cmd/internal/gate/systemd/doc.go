// Package systemd is what a gateway under systemd uses of it: the public listener that systemd has
// opened (socket activation), so that an unprivileged gateway listens on port 443 and connections
// wait in the queue of the socket while the gateway restarts, and the notifications of its state,
// for units with Type=notify. Without systemd it does nothing.
package systemd
