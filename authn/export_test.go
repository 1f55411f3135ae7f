package authn

// Settle waits until no look-up is under way.
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
