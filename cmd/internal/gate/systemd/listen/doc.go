// Package sdlisten returns the public listener of a gateway that systemd has opened for it (socket activation), so that an unprivileged
// gateway listens on port 443, and connections wait in the queue of the socket while the gateway restarts.
package sdlisten
