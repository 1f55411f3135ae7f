package wiring

import (
	"context"
	"time"

	"opsgate/cmd/internal/gate/policies"
)

const (
	// pollEvery is the interval of reading the files, which takes some 50 µs. Polling detects changes that kernel notifications miss:
	// replaced links and network file systems.
	pollEvery = 50 * time.Millisecond
	// A changed file is read when it has not changed for stableFor, or after stableChecks checks.
	stableFor    = 20 * time.Millisecond
	stableChecks = 10
	// retryEvery is the interval at which a refused configuration is read again without a change of its files: a file that was missing,
	// for example of a secret, may exist by then.
	retryEvery = 5 * time.Second
)

// watch reloads the configuration on signals and when its files change, and removes expired limits, until ctx ends. It returns nil.
func (r *reloader) watch(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.poll(ctx)
		case <-r.signals:
			_ = r.reload(ctx, trigger{why: "SIGHUP"}) // reload logs its error
		case <-ctx.Done():
			return nil
		}
	}
}

// poll removes expired limits, and reloads the configuration if its files have changed or a retry is due.
func (r *reloader) poll(ctx context.Context) {
	r.expire()
	if r.load == nil {
		return
	}
	files := r.active.current.Load().files
	last, retry := r.state()
	switch {
	case fingerprintOf(files) != last:
		waitUntilStable(ctx, files)
		_ = r.reload(ctx, trigger{why: "the files changed", automatic: true}) // reload logs its error
	case retry:
		_ = r.reload(ctx, trigger{why: "retry", automatic: true, retry: true})
	}
}

// state returns the fingerprint of the files at the last read, and whether to retry a refused configuration.
func (r *reloader) state() (files fingerprint, retry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files, r.lastErr != "" && r.clock().Sub(r.triedAt) >= retryEvery
}

// waitUntilStable waits until the files have not changed for stableFor, for stableChecks checks at most.
func waitUntilStable(ctx context.Context, files []string) {
	last := fingerprintOf(files)
	for range stableChecks {
		if !pause(ctx, stableFor) {
			return
		}
		current := fingerprintOf(files)
		if current == last {
			return
		}
		last = current
	}
}

// expire applies the active configuration again without its expired limits.
func (r *reloader) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	active, now := r.active.current.Load(), r.clock()
	if first := policies.NextExpiry(active.policies); first.IsZero() || now.Before(first) {
		return
	}
	next, err := r.requests.snapshot(active.loaded, now, active)
	if err != nil {
		r.reportRefused(trigger{why: "limits expired", automatic: true, retry: true}, err)
		return
	}
	r.apply(active, next)
}
