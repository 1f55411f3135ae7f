// Package mail sends the messages of package delivery as email, one message for each subscriber, to
// the operator's SMTP server.
//
// Whatever a title, a page's name or an address contains, a message has exactly the header fields
// of this package, and an SMTP command one recipient. All attempts for one delivery have the same
// Message-ID. The package is no mail server: it does not look up MX records, sign by DKIM or
// receive bounces; the SMTP server does.
package mail
