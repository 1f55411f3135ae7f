package delivery

import (
	"context"
	"errors"
	"time"
)

// Events of messages.
const (
	IncidentCreated = "incident.created"
	UpdatePosted    = "incident.update_posted"
)

// A Message is one attempt to send one event to one subscriber. Except Attempt and the secrets, it
// is the same at each attempt.
type Message struct {
	ID         string
	Event      string
	CreatedAt  time.Time // of the event
	Attempt    int       // 1 for the first
	Subscriber Subscriber
	Page       Page
	Incident   Incident
	Update     Update
}

// A Subscriber is the receiver of a message.
type Subscriber struct {
	ID      string
	Address string // an email address or a URL
	// Secrets are the keys of a webhook's signatures, newest first; two while a rotation is in
	// progress.
	Secrets [][]byte
}

// A Page is the status page of a message.
type Page struct{ ID, Name, Hostname, Slug string }

// An Incident has the parts of an incident that do not change. Its status at the time of the event
// is that of the update.
type Incident struct {
	ID, Title, Impact string
	IsMaintenance     bool
	StartedAt         time.Time
	Components        []Component // affected, in the order of the page
}

// A Component is one line of a status page.
type Component struct{ ID, Name string }

// An Update is an incident update.
type Update struct {
	ID, Status, Message string
	CreatedAt           time.Time
}

// A Sender sends messages over one channel. Its methods are safe for concurrent use.
type Sender interface {
	// Send returns nil once the receiver has accepted the message. Its error is one short line
	// without secrets, which is stored and logged: if it is a [Failure], its Kind states what that
	// means for further attempts, and after any other error the message is sent again later. Send
	// bounds the time of an attempt, and returns soon after ctx has ended, because a stop waits for
	// it.
	Send(ctx context.Context, m Message) error
}

// A Failure is the error of an attempt.
type Failure struct {
	Kind   Kind
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

// A Kind is what a failed attempt means for further ones.
type Kind int

// Kinds of failures.
const (
	// Again means that the message is sent again later.
	Again Kind = iota
	// Permanent means that the message is not sent again: the receiver refused it, or its address
	// is not allowed.
	Permanent
	// Gone means that the receiver wants no further messages: the subscriber is removed.
	Gone
)

// KindOf returns the kind of the error of a sender. An error that is not a [Failure] is Again.
func KindOf(err error) Kind {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure.Kind
	}
	return Again
}
