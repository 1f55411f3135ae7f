package ratelimit

// spreadOver is into how many parts an unknown past is divided.
const spreadOver = 16

// exceeds says whether more counts here than in a decision of another store, by more than the two may differ in how long they
// count.
func (s *state) exceeds(d *Decision) bool {
	for i, l := range s.layout.rules.limits {
		if s.count(i) > s.spentThere(i, d)+1+int64(l.Requests/20) {
			return true
		}
	}
	return false
}

// spentThere is how many admissions count in the i-th limit, as a decision of another store says.
func (s *state) spentThere(i int, d *Decision) int64 {
	return int64(s.layout.rules.limits[i].Requests - d.Budgets[s.layout.rules.of[i]].Remaining)
}

// missing returns what counts in a decision of another store and not here, newest first. What a longer limit lacks more than a
// shorter one was spent before the shorter one's window, and all of it was spent within gap, if the token was known before.
func (s *state) missing(d *Decision, gap int64) []spending {
	var list []spending
	var taken, shorter int64
	for _, i := range s.layout.rules.byPer {
		per := int64(s.layout.rules.limits[i].Per)
		lacking := s.spentThere(i, d) - s.count(i)
		if lacking > taken {
			oldest := min(gap, per-int64(d.Budgets[s.layout.rules.of[i]].Reset))
			list = s.spread(list, lacking-taken, shorter, max(shorter, oldest))
			taken = lacking
		}
		shorter = per + per/(buckets-1) // as long as the shorter one may count it
	}
	return list
}

// spread appends n admissions between two ages. A short time is not worth dividing.
func (s *state) spread(list []spending, n, newest, oldest int64) []spending {
	parts := min(n, spreadOver)
	if oldest-newest < int64(s.layout.rules.limits[s.layout.rules.byPer[0]].Per)/(buckets-1) {
		parts = 1
	}
	step := (oldest - newest) / parts
	for k := range parts {
		list = append(list, spending{at: s.seen - newest - k*step, n: n*(k+1)/parts - n*k/parts})
	}
	return list
}
