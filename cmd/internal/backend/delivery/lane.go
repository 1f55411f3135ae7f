package delivery

import (
	"strings"

	"opsgate/cmd/internal/backend/store/query"
)

// Bounds of the lanes of each channel. Further attempts have a lane of their own, so that receivers that fail or hang delay no first
// attempt; and one receiver uses only a part of the slots of a lane, so that it delays no other.
const (
	webhookSlots, webhookReceiverSlots             = 64, 8
	webhookRepeatedSlots, webhookRepeatedPerServer = 32, 4
	emailSlots, emailRepeatedSlots                 = 4, 2
)

// Channels of subscribers.
const (
	Email   = "email"
	Webhook = "webhook"
)

// A claim is a due delivery that this process sends, until its result is stored.
type claim struct {
	query.ListDueDeliveriesAnyTeamRow

	lane *lane
}

// A lane bounds the attempts of a channel that run at once. The table of deliveries is its queue.
type lane struct {
	channel     string
	repeated    bool // further attempts, otherwise first attempts
	slots       int
	perReceiver int

	running   int
	receivers map[string]int                      // attempts that run, by receiver
	claims    int                                 // including those that have ended without a stored result
	due       []query.ListDueDeliveriesAnyTeamRow // those read in this interval that have not started
}

func lanesOf(channel string) []*lane {
	first := &lane{channel: channel, slots: webhookSlots, perReceiver: webhookReceiverSlots, receivers: map[string]int{}}
	repeated := &lane{
		channel: channel, slots: webhookRepeatedSlots, perReceiver: webhookRepeatedPerServer, receivers: map[string]int{}, repeated: true,
	}
	if channel == Email {
		first.slots, first.perReceiver = emailSlots, emailSlots
		repeated.slots, repeated.perReceiver = emailRepeatedSlots, emailRepeatedSlots
	}
	return []*lane{first, repeated}
}

// next takes a slot for the first due delivery whose receiver has one, if there is one.
func (l *lane) next() (c claim, ok bool) {
	if l.running == l.slots {
		return claim{}, false
	}
	for i, row := range l.due {
		if l.receivers[row.Receiver] < l.perReceiver {
			l.due = append(l.due[:i], l.due[i+1:]...)
			l.receivers[row.Receiver]++
			l.running++
			l.claims++
			return claim{row, l}, true
		}
	}
	return claim{}, false
}

// end returns the slot of a delivery.
func (l *lane) end(c claim) {
	l.running--
	if l.receivers[c.Receiver]--; l.receivers[c.Receiver] == 0 {
		delete(l.receivers, c.Receiver)
	}
}

// full returns the receivers that have no free slot, in the form of the query.
func (l *lane) full() string {
	var names []string
	for name, running := range l.receivers {
		if running >= l.perReceiver {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "\n" + strings.Join(names, "\n") + "\n"
}
