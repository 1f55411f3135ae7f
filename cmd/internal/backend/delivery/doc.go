// Package delivery sends the notifications in the outbox to the subscribers of status pages.
//
// A notification, written in the transaction of its action, is expanded into one delivery for each confirmed subscriber of its page. Each
// delivery is sent at least once, with the same message id at each attempt, and in the order of the notifications of its subscriber.
package delivery
