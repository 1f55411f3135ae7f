package inbox

import (
	"slices"
	"sync"
	"time"
)

// Bounds of the messages that are kept.
const (
	maxMessages = 500
	maxBytes    = 32 << 20
)

// A Summary is what the list shows of a message.
type Summary struct {
	// Number is the position in the order of arrival, from 1. It names the message in URLs.
	Number     uint64    `json:"number"`
	ReceivedAt time.Time `json:"receivedAt"`
	Channel    string    `json:"channel"` // "email" or "webhook"
	Address    string    `json:"address"` // of the subscriber
	Page       string    `json:"page"`    // the name of the status page; "" if unknown
	// ID is the message id: the same at each attempt.
	ID      string `json:"id"`
	Subject string `json:"subject"` // of an email, or the event of a webhook with the incident and its status
	// Attempt counts the arrivals of this id at this subscriber.
	Attempt int `json:"attempt"`
	Bytes   int `json:"bytes"`
	// Status is the response to a webhook.
	Status int `json:"status,omitzero"`
	// Receiver describes a receiver that does not accept at once.
	Receiver string `json:"receiver,omitzero"`
	// Signature is the result of the verification of a webhook.
	Signature *Signature `json:"signature,omitzero"`
}

// A Signature is the result of the verification of a webhook's signature.
type Signature struct {
	Verified bool   `json:"verified"`
	Detail   string `json:"detail"`
}

// A message is a received message. It does not change.
type message struct {
	Summary

	raw  []byte // the email, or the HTTP request
	body int    // the offset of a webhook's body in raw
}

// box keeps the last messages. It is safe for concurrent use.
type box struct {
	mu      sync.Mutex
	list    []*message // in the order of arrival
	bytes   int
	last    uint64        // the number of the last message
	cleared uint64        // how often the box was emptied
	changed chan struct{} // closed at the next change
}

func newBox() *box { return &box{changed: make(chan struct{})} }

// add numbers a message and keeps it. The function complete gets the message with its attempt and may change it.
func (b *box) add(m *message, complete func(*message)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	m.Number, m.Attempt, m.Bytes = b.last, 1, len(m.raw)
	for _, earlier := range slices.Backward(b.list) {
		if m.ID != "" && earlier.ID == m.ID && earlier.Channel == m.Channel && earlier.Address == m.Address {
			m.Attempt = earlier.Attempt + 1
			break
		}
	}
	complete(m)
	b.list, b.bytes = append(b.list, m), b.bytes+len(m.raw)
	drop := 0
	for len(b.list)-drop > maxMessages || b.bytes > maxBytes {
		b.bytes -= len(b.list[drop].raw)
		drop++
	}
	b.list = slices.Delete(b.list, 0, drop)
	b.notify()
}

// clear removes all messages.
func (b *box) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.bytes, b.cleared = nil, 0, b.cleared+1
	b.notify()
}

func (b *box) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// get returns the message with the number, or nil.
func (b *box) get(number uint64) *message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.list, func(m *message) bool { return m.Number == number }); i >= 0 {
		return b.list[i]
	}
	return nil
}

// news is what a reader of the box has not seen yet.
type news struct {
	// Reset replaces the list of the reader.
	Reset bool `json:"reset"`
	// Oldest is the number of the oldest kept message; 0 for none.
	Oldest uint64 `json:"oldest"`
	// Messages are newest first.
	Messages []Summary `json:"messages"`
}

// position is how far a reader has read.
type position struct{ last, cleared uint64 }

// since returns the news after a position; after nil, all messages. The channel is closed at the next change.
func (b *box) since(at *position) (news, position, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := news{Messages: []Summary{}, Reset: at == nil || at.cleared != b.cleared}
	if len(b.list) > 0 {
		n.Oldest = b.list[0].Number
	}
	for _, m := range slices.Backward(b.list) {
		if !n.Reset && m.Number <= at.last {
			break
		}
		n.Messages = append(n.Messages, m.Summary)
	}
	return n, position{last: b.last, cleared: b.cleared}, b.changed
}
