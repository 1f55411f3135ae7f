package demand

// Record records an event if its token is in the sample.
func (r *Recorder) Record(e Event) {
	if r.sampled(e.TokenID) {
		r.record(&e)
	}
}

// Sampled is sampled for tests.
func (r *Recorder) Sampled(tokenID string) bool { return r.sampled(tokenID) }

// Queued returns the queue.
func (r *Recorder) Queued() chan Event { return r.queue }
