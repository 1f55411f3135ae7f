package delivery

import (
	"time"

	"opsgate/cmd/internal/backend/store/query"
)

// Kill ends attempts in progress and loses their results, as a kill of the process does. The
// context of Run must have ended.
func (d *Dispatcher) Kill() {
	if abandon := d.abandon.Load(); abandon != nil { // nil while another dispatcher has the lock
		(*abandon)()
	}
}

// Judge returns the outcome of an attempt after others, at an age of its message, and the pause
// before the next one.
func Judge(attempts int64, age time.Duration, random float64, err error) (kind string, pause time.Duration) {
	now := time.Unix(1_800_000_000, 0)
	d := New(nil, Options{Clock: func() time.Time { return now }, Random: func() float64 { return random }})
	kind, next := d.newPool(Webhook, nil).judge(query.Delivery{Attempts: attempts, CreatedAt: now.Add(-age).UnixNano()}, err)
	return kind, time.Duration(next - now.UnixNano())
}
