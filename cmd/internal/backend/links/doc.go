// Package links serves the pages that the links of emails open: confirming and ending a subscription.
//
// A link has a token of 128 random bits, which is the only credential. GET shows a page with one button and changes nothing, because
// mail servers open links to scan them. POST does it, in one transaction with its audit entry, and has no further effect when it is
// repeated. POST to unsubscribe is also the one-click request of RFC 8058, which mail programs send: it returns the same page whether or
// not the subscription existed. The pages need no script, cookie or other request. Tokens are never logged, and sent to no other site.
package links
