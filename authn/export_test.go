package authn

// Settle waits until no lookup is in flight.
func (a *Authenticator) Settle() {
	for {
		a.mu.Lock()
		var f *flight
		for _, f = range a.flights {
			break
		}
		a.mu.Unlock()
		if f == nil {
			return
		}
		<-f.done
	}
}

// WithLock calls f while the lock of lookups is held. Requests that need no lookup do not wait.
func (a *Authenticator) WithLock(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}
