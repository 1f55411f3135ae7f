package delivery

// Kill ends attempts in progress and loses their results, as a kill of the process does. The context of Run must have ended.
func (d *Dispatcher) Kill() { d.abandon() }
