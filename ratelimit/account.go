package ratelimit

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// An Account is the encoded usage of one token: a list of windows, of times for limits of up to
// [MaxExact] requests, else of counts in buckets. docs/develop/rate-limiter.md describes its life
// and its bytes. redisstore's account.lua has the same functions.
//
// A nil account has no usage. Times are µs since 1970 by the clock of the store that decides.
type Account []byte

const (
	form        = 3 // first byte of every account: the version of its format
	headerBytes = 2 // form, number of windows
	maxWindows  = 8 // of two policies of MaxLimits limits
	// maxTimes is the maximum number of times in a window, which keeps the newest ones. It is one
	// more than the largest limit: after a refund from a full window (removeTime), MaxExact real
	// ones remain.
	maxTimes = MaxExact + 1

	// The fields of a window.
	tagAt     = 0 // number of times, or bucketsTag | bytes of a count
	lengthAt  = 1
	usedAt    = 7
	sinceAt   = 14
	stateAt   = 21
	countsAt  = stateAt + 6 // after the number of the newest bucket
	timeBytes = 7

	bucketsTag      = 0x80
	coveringBuckets = 60                  // together as long as the window
	numBuckets      = coveringBuckets + 1 // the newest one is not complete

	// in April 1970: earlier times are replaced by it, so that no bucket of a policy's window has a
	// number below 0
	earliest = 1 << 43
	latest   = 1 << 53 // in 2255, exclusive: the numbers of account.lua are exact up to here
	anyTime  = 0       // every lastUsed is at or after it
)

// A shape, the length and the kind of a window, identifies it in an account.
type shape struct {
	length int64 // µs
	exact  bool  // times, not buckets
}

// micros returns µs, rounded up, so that a window is never too short.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// A window is a slice of an account that begins with the bytes of the window. Those of later
// windows may follow.
type window []byte

func (w window) exact() bool   { return w[tagAt] < bucketsTag }
func (w window) length() int64 { return int64(get48(w[lengthAt:])) }
func (w window) shape() shape  { return shape{w.length(), w.exact()} }

// lastUsed returns when a decision last used the window. prepareWindows does not renew it at each
// decision.
func (w window) lastUsed() int64     { return getTime(w[usedAt:]) }
func (w window) setLastUsed(t int64) { putTime(w[usedAt:], t) }

// since returns when the window was made and filled. An earlier admission may be missing, or be in
// a later bucket than its own.
func (w window) since() int64     { return getTime(w[sinceAt:]) }
func (w window) setSince(t int64) { putTime(w[sinceAt:], t) }

// size returns the bytes of the window.
func (w window) size() int {
	if w.exact() {
		return stateAt + w.times()*timeBytes
	}
	return countsAt + numBuckets*w.countBytes()
}

// The state of an exact window is the times of its admissions, oldest first.

func (w window) times() int             { return int(w[tagAt]) }
func (w window) time(i int) int64       { return getTime(w[stateAt+i*timeBytes:]) }
func (w window) setTime(i int, t int64) { putTime(w[stateAt+i*timeBytes:], t) }

// The state of a window of buckets is the number of the newest bucket, and the counts of the last
// 61. Bucket b has the admissions from b×width to (b+1)×width, exclusive. It counts until bucket
// b+61 begins: then all of its admissions have left the window.

func (w window) width() int64          { return (w.length() + coveringBuckets - 1) / coveringBuckets }
func (w window) newest() int64         { return int64(get48(w[stateAt:])) }
func (w window) setNewest(b int64)     { put48(w[stateAt:], uint64(b)) }
func (w window) countBytes() int       { return int(w[tagAt] &^ bucketsTag) }
func (w window) expires(b int64) int64 { return (b + numBuckets) * w.width() }
func (w window) holds(b int64) bool    { return b <= w.newest() && b > w.newest()-numBuckets }

func (w window) count(b int64) int64 { return int64(w.countAt(int(b % numBuckets))) }

// countAt returns the count at a place.
func (w window) countAt(place int) uint32 {
	switch counts := w[countsAt:]; w[tagAt] {
	case bucketsTag | 1:
		return uint32(counts[place])
	case bucketsTag | 2:
		return uint32(binary.LittleEndian.Uint16(counts[2*place:]))
	default:
		return binary.LittleEndian.Uint32(counts[4*place:])
	}
}

// setCount sets the count of bucket b to n, which must fit into countBytes.
func (w window) setCount(b, n int64) {
	switch at := countsAt + int(b%numBuckets)*w.countBytes(); w.countBytes() {
	case 1:
		w[at] = byte(n)
	case 2:
		binary.LittleEndian.PutUint16(w[at:], uint16(n))
	default:
		binary.LittleEndian.PutUint32(w[at:], uint32(n))
	}
}

// bytesFor returns the bytes that a count of n needs.
func bytesFor(n int64) int {
	switch {
	case n <= math.MaxUint8:
		return 1
	case n <= math.MaxUint16:
		return 2
	default:
		return 4
	}
}

// newWindow returns a window that is made and used now, without admissions.
func (s shape) newWindow(now int64) window {
	w := make(window, stateAt, countsAt+numBuckets)
	put48(w[lengthAt:], uint64(s.length))
	w.setLastUsed(now)
	w.setSince(now)
	if !s.exact {
		w = w[:cap(w)]
		w[tagAt] = bucketsTag | 1
		w.setNewest(now / w.width())
	}
	return w
}

// find returns the window of a shape; nil if the account does not have it.
func (a Account) find(s shape) window {
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		if w := window(a[at:]); w.shape() == s {
			return w
		}
	}
	return nil
}

// valid reports whether the bytes are an account: those of a store may be foreign.
func (a Account) valid() bool {
	if len(a) < headerBytes || a[0] != form || a[1] > maxWindows {
		return false
	}
	at := headerBytes
	for range a[1] {
		w := window(a[at:])
		if !w.valid() || a[:at].find(w.shape()) != nil { // or an earlier window has the same shape
			return false
		}
		at += w.size()
	}
	return at == len(a)
}

func (w window) valid() bool {
	if len(w) < stateAt || len(w) < w.size() || w.length() < 1 || w.lastUsed() >= latest || w.since() >= latest {
		return false
	}
	if !w.exact() {
		size := w.countBytes()
		return (size == 1 || size == 2 || size == 4) && w.newest() <= (latest-1)/w.width()
	}
	for i := range w.times() {
		if w.time(i) >= latest || i > 0 && w.time(i) < w.time(i-1) {
			return false
		}
	}
	return w.times() <= maxTimes
}

// widen doubles the bytes of each count of the window at an offset.
func (a Account) widen(at int) Account {
	w := window(a[at:])
	wide := make(window, countsAt+2*numBuckets*w.countBytes())
	copy(wide, w[:countsAt])
	wide[tagAt] = bucketsTag | byte(2*w.countBytes())
	for b := range int64(numBuckets) { // 0 to 60 stand for the places (b mod 61), whatever the buckets' numbers
		wide.setCount(b, w.count(b))
	}
	return slices.Replace(a, at, at+w.size(), wide...)
}

func getTime(b []byte) int64 { return int64(get48(b) | uint64(b[6])<<48) }

func putTime(b []byte, t int64) {
	put48(b, uint64(t))
	b[6] = byte(t >> 48)
}

func get48(b []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

func put48(b []byte, v uint64) {
	binary.LittleEndian.PutUint32(b, uint32(v))
	binary.LittleEndian.PutUint16(b[4:], uint16(v>>32))
}
