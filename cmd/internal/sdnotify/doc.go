// Package sdnotify tells systemd how a gateway fares, where systemd asked to be told: a unit with Type=notify sets NOTIFY_SOCKET.
// Anywhere else it says nothing.
//
// A service manager that cannot be reached ends nobody's requests: failures are logged.
package sdnotify
