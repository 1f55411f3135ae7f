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
