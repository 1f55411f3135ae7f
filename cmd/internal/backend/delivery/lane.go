package delivery

import (
	"strings"
	"time"

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

// A relay is the server that all messages of a channel go through. While it fails, the channel pauses, and then makes one attempt at a
// time.
type relay struct {
	failures int64 // in a row
	until    int64 // the end of the pause
	running  int   // attempts of the channel
}

// maxPause is the longest pause of a relay.
const maxPause = 10 * time.Minute

// pauses reports whether no attempt may start now.
func (r *relay) pauses(now int64) bool { return r.failures > 0 && (r.paused(now) || r.running > 0) }

// paused reports whether the pause lasts. If its end is further away than any pause, the clock was set back: then it has ended.
func (r *relay) paused(now int64) bool { return now < r.until && r.until <= now+maxPause.Nanoseconds() }

// record records the outcome of an attempt, and returns the length of the pause that it begins, or 0.
func (r *relay) record(kind string, now int64) time.Duration {
	switch {
	case kind == dropped:
	case kind != postponed:
		r.failures = 0
	case !r.paused(now): // not those that ran beside the first
		r.failures++
		pause := min(backOff(r.failures), maxPause)
		r.until = now + pause.Nanoseconds()
		return pause
	}
	return 0
}

// A lane bounds the attempts of a channel that run at once. The table of deliveries is its queue.
type lane struct {
	channel     string
	repeated    bool // further attempts, otherwise first attempts
	slots       int
	perReceiver int
	relay       *relay // of the channel

	running   int
	receivers map[string]int                      // attempts that run, by receiver
	claims    int                                 // including those that have ended without a stored result
	due       []query.ListDueDeliveriesAnyTeamRow // those read in this interval that have not started
}

func lanesOf(channel string) []*lane {
	shared := &relay{}
	first := &lane{channel: channel, slots: webhookSlots, perReceiver: webhookReceiverSlots, relay: shared, receivers: map[string]int{}}
	repeated := &lane{
		channel: channel, slots: webhookRepeatedSlots, perReceiver: webhookRepeatedPerServer, relay: shared, receivers: map[string]int{},
		repeated: true,
	}
	if channel == Email {
		first.slots, first.perReceiver = emailSlots, emailSlots
		repeated.slots, repeated.perReceiver = emailRepeatedSlots, emailRepeatedSlots
	}
	return []*lane{first, repeated}
}

// free reports whether an attempt may start now.
func (l *lane) free(now int64) bool { return l.running < l.slots && !l.relay.pauses(now) }

// next takes a slot for the first due delivery whose receiver has one, if there is one.
func (l *lane) next(now int64) (c claim, ok bool) {
	if !l.free(now) {
		return claim{}, false
	}
	for i, row := range l.due {
		if l.receivers[row.Receiver] < l.perReceiver {
			l.due = append(l.due[:i], l.due[i+1:]...)
			l.receivers[row.Receiver]++
			l.running++
			l.relay.running++
			l.claims++
			return claim{row, l}, true
		}
	}
	return claim{}, false
}

// end returns the slot of a delivery.
func (l *lane) end(c claim) {
	l.running--
	l.relay.running--
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
