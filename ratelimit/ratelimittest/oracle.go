package ratelimittest

import (
	"maps"
	"slices"

	"opsgate/ratelimit"
)

// An oracle keeps every admission of one token, by whichever gateway, and decides each gateway's
// limits by them. It is simple rather than fast. Times are µs since 1970.
//
// A store knows of an admission by its windows, one for each length and kind (of times, for limits
// of up to 64 requests, or of buckets) that a policy asked for. So the oracle allows a store what
// these cannot know, and no more:
//   - A bucket of a sixtieth of the length counts until its last instant has left the window.
//   - A window that is asked for for the first time is filled from another one. Admissions before that may be missing if they are older than
//     all other windows reach back, and may count as of the end of a bucket of the other window.
//   - A refund may leave the admission in a window that was made later, or that has more than 64.
type oracle struct {
	admitted []int64 // sorted
	windows  map[shape]*window
	last     int64 // time of the last request
	// so many of admitted may be missing in a new window: their window's end was before the clock
	// was set back, and is not now
	stale int
}

// A shape identifies a window.
type shape struct {
	per   int64
	exact bool
}

func shapeOf(l ratelimit.Limit) shape {
	return shape{l.Per.Microseconds(), l.Requests <= ratelimit.MaxExact}
}

// width returns the µs by which admissions may count too long.
func (k shape) width() int64 {
	if k.exact {
		return 0
	}
	return 61*((k.per+59)/60) - k.per
}

// A window is what a store must know, and may not know.
type window struct {
	asked    int64   // when a decision last asked for it
	made     int64   // when one asked for it for the first time
	from     int     // the first ones of admitted may be missing, so many
	slack    int64   // admissions before it was made may count as so much later, at most as of then
	refunded []int64 // may still count
	dropped  bool    // a store need not have it
}

// ask notes that a decision asks for the windows of a policy. A store keeps another one until no
// decision has asked for it during twice the longest length of the token's windows, by a time that
// may be a quarter of that length old.
func (o *oracle) ask(p *ratelimit.Policy, now int64) {
	made := map[shape]*window{}
	for _, l := range p.Limits() {
		if w, ok := o.windows[shapeOf(l)]; ok && !w.dropped {
			w.asked = now
		} else {
			made[shapeOf(l)] = o.fill(shapeOf(l), now)
		}
	}
	if o.windows == nil {
		o.windows = made
	}
	maps.Copy(o.windows, made)
	var longest int64
	for k, w := range o.windows {
		if !w.dropped {
			longest = max(longest, k.per)
		}
	}
	for _, w := range o.windows {
		w.dropped = w.dropped || w.asked+longest/4*7 <= now
	}
}

// fill returns a window that is made now. A store fills it from one that has the time of each
// admission, if there is one.
func (o *oracle) fill(of shape, now int64) *window {
	made := &window{asked: now, made: now, from: len(o.admitted)}
	exact, exactSlack := false, int64(0)
	for k, w := range o.windows {
		if k.exact && k.per >= of.per {
			exact = exact || !w.dropped && o.older(k, w) <= now-k.per
			exactSlack = max(exactSlack, w.slack)
		}
		made.slack = max(made.slack, w.slack+k.width())
		made.refunded = append(made.refunded, w.refunded...)
		if !w.dropped {
			made.from = min(made.from, max(o.stale, w.from, after(o.admitted, max(now-k.per, o.older(k, w)))))
		}
	}
	if exact {
		made.slack = exactSlack
	}
	slices.Sort(made.refunded)
	return made
}

// older returns the time of the newest admission that a window need not have, as it has 65 later
// ones; 0 if there is none.
func (o *oracle) older(k shape, w *window) int64 {
	all := slices.Concat(o.admitted, w.refunded)
	if n := len(all) - ratelimit.MaxExact - 1; k.exact && n >= 0 {
		slices.Sort(all)
		return all[n]
	}
	return 0
}

// least returns the number of admissions that a store must count in a limit.
func (o *oracle) least(l ratelimit.Limit, now int64) int {
	k := shapeOf(l)
	return len(o.admitted) - max(o.windows[k].from, after(o.admitted, now-k.per))
}

// most returns the number of admissions that a store may count in a limit.
func (o *oracle) most(l ratelimit.Limit, now int64) (n int) {
	k := shapeOf(l)
	w, start := o.windows[k], now-k.per-k.width()
	for _, list := range [][]int64{o.admitted, w.refunded} {
		made := after(list, w.made)
		n += len(list) - max(made, after(list, start))
		if w.made > start {
			n += made - after(list[:made], start-w.slack)
		}
	}
	return n
}

// after returns the index of the first time after t in a sorted list.
func after(list []int64, t int64) int {
	i, _ := slices.BinarySearch(list, t+1)
	return i
}

func (o *oracle) admit(now int64) { o.admitted = append(o.admitted, now) }

func (o *oracle) refund(d ratelimit.Decision) {
	at := d.At.UnixMicro()
	i := after(o.admitted, at) - 1
	if i < 0 || o.admitted[i] != at {
		return
	}
	for k, w := range o.windows {
		if newest := o.admitted[len(o.admitted)-1]; at < w.made || o.older(k, w) > newest-k.per {
			w.refunded = slices.Insert(w.refunded, after(w.refunded, at), at)
		}
		if i < w.from {
			w.from--
		}
	}
	if i < o.stale {
		o.stale--
	}
	o.admitted = slices.Delete(o.admitted, i, i+1)
}

// set sets the time. If the clock was set back, times in the future are moved to now, and what has
// expired before that is dropped.
func (o *oracle) set(now int64) {
	if now < o.last {
		for k, w := range o.windows {
			w.from = max(w.from, after(o.admitted, o.last-k.per))
			o.stale = max(o.stale, w.from)
			w.asked, w.made = min(w.asked, now), min(w.made, now)
			clamp(w.refunded, now)
		}
		clamp(o.admitted, now)
	}
	o.last = now
}

func clamp(sorted []int64, now int64) {
	for i := after(sorted, now); i < len(sorted); i++ {
		sorted[i] = now
	}
}

// reset drops everything.
func (o *oracle) reset() { *o = oracle{} }
