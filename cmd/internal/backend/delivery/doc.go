// Package delivery sends the notifications in the outbox to the subscribers of status pages.
//
// The transaction of an action writes one delivery for each subscriber of its page. Each delivery
// is sent at least once, with the same message id at each attempt, and in the order of the
// notifications of its subscriber. Attempts end after a day.
package delivery
