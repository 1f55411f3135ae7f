package edge

import (
	"context"
	"time"

	"opsgate/cmd/internal/policies"
)

const (
	// pollEvery is how often the files are looked at, which takes some 50 µs. That finds what notifications of the kernel miss: links
	// that are swapped, file systems of other machines.
	pollEvery = 50 * time.Millisecond
	// A file that is being written is read when it has been the same for settleFor, or after so many looks.
	settleFor   = 20 * time.Millisecond
	settleLooks = 10
	// retryEvery is how often a configuration that was refused is read again though its files are the same: what else it needs, such
	// as the file of a secret, may be there by then.
	retryEvery = 5 * time.Second
)

// watch follows the files, the clock and what it is told until ctx ends.
func (r *reloader) watch(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.look(ctx)
		case <-r.hangUps:
			_ = r.reload(ctx, trigger{why: "SIGHUP"}) // it has been reported
		case <-ctx.Done():
			return nil
		}
	}
}

// look does what is due.
func (r *reloader) look(ctx context.Context) {
	r.expire()
	if r.load == nil {
		return
	}
	files := r.parts.current.Load().files
	seen, retry := r.standing()
	switch {
	case fingerprintOf(files) != seen:
		settle(ctx, files)
		_ = r.reload(ctx, trigger{why: "the files changed", unasked: true}) // it has been reported
	case retry:
		_ = r.reload(ctx, trigger{why: "another try", unasked: true})
	}
}

// standing returns what the files were when they were last read, and whether to read them again though they are the same.
func (r *reloader) standing() (seen fingerprint, retry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, r.refused != "" && r.clock().Sub(r.triedAt) >= retryEvery
}

// settle waits until nobody writes to the files, but not for long.
func settle(ctx context.Context, files []string) {
	last := fingerprintOf(files)
	for range settleLooks {
		if !pause(ctx, settleFor) {
			return
		}
		now := fingerprintOf(files)
		if now == last {
			return
		}
		last = now
	}
}

// expire puts the configuration in force without the limits that have expired since.
func (r *reloader) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	running, now := r.parts.current.Load(), r.clock()
	if first := policies.NextExpiry(running.policies); first.IsZero() || now.Before(first) {
		return
	}
	next, err := r.parts.snapshot(running.loaded, now)
	if err != nil {
		r.refuse(trigger{why: "limits expired", unasked: true}, err)
		return
	}
	r.take(running, next)
}
