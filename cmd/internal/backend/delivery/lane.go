package delivery

import "strings"

// Bounds of the lanes of each channel. Further attempts have a lane of their own, so that receivers that fail or hang delay no first
// attempt; and one receiver uses only a part of the slots of a lane, so that it delays no other.
const (
	webhookSlots, webhookReceiverSlots             = 64, 8
	webhookRepeatedSlots, webhookRepeatedPerServer = 32, 4
	emailSlots, emailRepeatedSlots                 = 4, 2
	// receiverClaims bounds the deliveries to one receiver that a lane has in memory.
	receiverClaims = 256
	// claimBatch is the number of deliveries that are claimed at once.
	claimBatch = 256
)

// Channels of subscribers.
const (
	Email   = "email"
	Webhook = "webhook"
)

// A claim is a due delivery that this process sends.
type claim struct {
	sequence   int64
	subscriber string
	receiver   string
	lane       *lane
}

// A lane holds the claimed deliveries of a channel with the same bound.
type lane struct {
	channel     string
	repeated    bool // further attempts, otherwise first attempts
	slots       int
	perReceiver int

	running   int
	receivers map[string]*receiver
	ready     []*receiver // with a queued delivery and a free slot, in turn
	stale     bool        // the database may have more due deliveries than those claimed
}

// A receiver holds the claimed deliveries to one receiver.
type receiver struct {
	queue   []claim
	running int
	claims  int // queued, running, or ended without a stored result
	ready   bool
	cut     bool // the database may have more due deliveries to it
}

func lanesOf(channel string) []*lane {
	first := &lane{channel: channel, slots: webhookSlots, perReceiver: webhookReceiverSlots}
	repeated := &lane{channel: channel, slots: webhookRepeatedSlots, perReceiver: webhookRepeatedPerServer}
	if channel == Email {
		first.slots, first.perReceiver = emailSlots, emailSlots
		repeated.slots, repeated.perReceiver = emailRepeatedSlots, emailRepeatedSlots
	}
	repeated.repeated = true
	for _, l := range []*lane{first, repeated} {
		l.receivers = map[string]*receiver{}
		l.stale = true
	}
	return []*lane{first, repeated}
}

// add queues a claim. It returns false if the receiver has reached its bound.
func (l *lane) add(c claim) bool {
	r := l.receivers[c.receiver]
	if r == nil {
		r = &receiver{}
		l.receivers[c.receiver] = r
	}
	if r.claims >= receiverClaims {
		r.cut = true
		return false
	}
	r.queue = append(r.queue, c)
	r.claims++
	l.enqueue(r)
	return true
}

// enqueue adds the receiver to the ready ones if it can start an attempt.
func (l *lane) enqueue(r *receiver) {
	if !r.ready && len(r.queue) > 0 && r.running < l.perReceiver {
		r.ready = true
		l.ready = append(l.ready, r)
	}
}

// next takes a slot for the next delivery, if there are both.
func (l *lane) next() (c claim, ok bool) {
	if l.running == l.slots || len(l.ready) == 0 {
		return claim{}, false
	}
	r := l.ready[0]
	l.ready, r.ready = l.ready[1:], false
	c, r.queue = r.queue[0], r.queue[1:]
	r.running++
	l.running++
	l.enqueue(r)
	if r.cut && len(r.queue) < l.perReceiver {
		r.cut, l.stale = false, true
	}
	return c, true
}

// end returns the slot of a delivery.
func (l *lane) end(c claim) {
	r := l.receivers[c.receiver]
	r.running--
	l.running--
	l.enqueue(r)
	l.discard(c.receiver, r)
}

// release removes a claim whose result is stored. This may precede end.
func (l *lane) release(c claim) {
	r := l.receivers[c.receiver]
	r.claims--
	l.discard(c.receiver, r)
}

// discard removes a receiver without claims.
func (l *lane) discard(name string, r *receiver) {
	if r.claims > 0 || r.running > 0 {
		return
	}
	l.stale = l.stale || r.cut
	delete(l.receivers, name)
}

// wants reports whether the lane can use more deliveries than those in memory.
func (l *lane) wants() bool { return l.stale && l.running < l.slots && len(l.ready) == 0 }

// claims returns the number of claims, and the receivers that have reached their bound, in the form of the query.
func (l *lane) claims() (n int, full string) {
	var names []string
	for name, r := range l.receivers {
		n += r.claims
		if r.claims >= receiverClaims {
			r.cut = true
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return n, ""
	}
	return n, "\n" + strings.Join(names, "\n") + "\n"
}
