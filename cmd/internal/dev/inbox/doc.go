// Package inbox receives what the subscribers of a demo get and shows it: an SMTP server, a receiver of webhooks, and a page that lists
// the messages, newest first, and follows them live.
//
// It listens on loopback addresses only. [Inbox.DialContext] keeps webhooks on the machine: it connects every host under .example to the
// inbox, and refuses each other host that is not on a loopback address. The last 500 messages are kept in memory, and none on disk. It is
// for the development program: it has no authentication, and shows the links of emails, which are secrets elsewhere.
package inbox
