// Package sdnotify reports the state of a gateway to systemd if NOTIFY_SOCKET is set, as it is for units with Type=notify. Otherwise it
// does nothing. A failed notification is logged; it does not affect requests.
package sdnotify
