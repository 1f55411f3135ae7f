package ratelimit

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// An Account is the encoded usage of one token under one policy: a header with the limits, and the state of each limit.
// docs/develop/rate-limiter.md describes the bytes. [Memory], Redis and the local fallback have the same accounts; redisstore's account.lua
// has the same codec.
//
// A nil account has no usage. Times are µs since 1970 by the clock of the store that decides.
type Account []byte

const (
	accountVersion  = 2    // first byte of every account: the version of the encoding
	headerBytes     = 2    // version, number of limits
	descriptorBytes = 11   // requests, per, shadow
	sinceBytes      = 7    // of since, which follows the header: the time from which on the account is complete
	ringTag         = 0x80 // first byte of a state: of timestamps their number, of a ring ringTag | bytes of a count
	timeBytes       = 7    // of one admission
	newestBytes     = 6    // of the number of the newest bucket
	countsAt        = 1 + newestBytes
	numBuckets      = 61 // 60 cover the window; the newest one is not complete

	earliest = 1 << 43 // in April 1970: earlier times are replaced by it, so that all bucket numbers of a window are positive
	latest   = 1 << 53 // in 2255, exclusive: the numbers of account.lua are exact up to here
)

// A rule is a limit as accounts encode it.
type rule struct {
	requests int64
	per      int64 // µs
	width    int64 // µs of a bucket
	shadow   bool
}

func newRule(requests, per int64, shadow bool) rule {
	return rule{requests: requests, per: per, width: (per + numBuckets - 2) / (numBuckets - 1), shadow: shadow}
}

// exact reports whether the limit is decided by the times of its admissions.
func (r *rule) exact() bool { return r.requests <= MaxExact }

// countBytes returns the bytes of a count in a ring whose counts are at most n.
func countBytes(n int64) int {
	switch {
	case n <= math.MaxUint8:
		return 1
	case n <= math.MaxUint16:
		return 2
	default:
		return 4
	}
}

// micros returns µs, rounded up, so that a window is never too short.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// header returns the header of accounts under the rules.
func header(rules []rule) []byte {
	b := []byte{accountVersion, byte(len(rules))}
	for _, r := range rules {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.requests))
		b = append48(b, uint64(r.per))
		b = append(b, 0)
		if r.shadow {
			b[len(b)-1] = 1
		}
	}
	return b
}

// fullBytes returns the largest size of a state with at most as many admissions as the limit allows.
func (r *rule) fullBytes() int {
	if r.exact() {
		return 1 + int(r.requests)*timeBytes
	}
	return countsAt + numBuckets*countBytes(r.requests)
}

// rules decodes the header, and reports whether the value is an account of this version.
func (a Account) rules() ([]rule, bool) {
	if len(a) < headerBytes || a[0] != accountVersion || a[1] < 1 || a[1] > MaxLimits {
		return nil, false
	}
	n := int(a[1])
	at := statesAt(n)
	if len(a) < at || a.since() >= latest {
		return nil, false
	}
	rules := make([]rule, n)
	for i := range rules {
		d := a[headerBytes+i*descriptorBytes:]
		requests, per, shadow := int64(binary.LittleEndian.Uint32(d)), int64(get48(d[4:])), d[10]
		if requests < 1 || requests > maxRequests || per < 1 || shadow > 1 {
			return nil, false
		}
		rules[i] = newRule(requests, per, shadow == 1)
		if !rules[i].valid(a[at:]) {
			return nil, false
		}
		at += stateBytes(a[at])
	}
	return rules, at == len(a)
}

// statesAt returns the offset of the first state in an account of n limits.
func statesAt(n int) int { return headerBytes + n*descriptorBytes + sinceBytes }

// since returns the time from which on the account is complete: it may lack earlier admissions.
func (a Account) since() int64 { return getTime(a[statesAt(int(a[1]))-sinceBytes:]) }

func (a Account) setSince(t int64) { putTime(a[statesAt(int(a[1]))-sinceBytes:], t) }

// valid reports whether b begins with a state of the limit.
func (r *rule) valid(b []byte) bool {
	if len(b) == 0 || len(b) < stateBytes(b[0]) {
		return false
	}
	if size := int(b[0] &^ ringTag); b[0] >= ringTag {
		high, start := bits.Mul64(uint64(newRing(r, b).newest()), uint64(r.width)) // foreign bytes may overflow 64 bits
		return (size == 1 || size == 2 || size == 4) && size >= countBytes(r.requests) && high == 0 && start < latest
	}
	if !r.exact() || b[0] > MaxExact {
		return false
	}
	s := timestamps(b)
	for i := 1; i < s.len(); i++ {
		if s.at(i) < s.at(i-1) {
			return false
		}
	}
	return s.len() == 0 || s.at(s.len()-1) < latest
}

// stateBytes returns the size of the state that begins with a tag.
func stateBytes(tag byte) int {
	if tag < ringTag {
		return 1 + timeBytes*int(tag)
	}
	return countsAt + numBuckets*int(tag&^ringTag)
}

func get48(b []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

func append48(b []byte, v uint64) []byte {
	n := len(b)
	return binary.LittleEndian.AppendUint64(b, v)[:n+6]
}

func put48(b []byte, v uint64) {
	binary.LittleEndian.PutUint32(b, uint32(v))
	binary.LittleEndian.PutUint16(b[4:], uint16(v>>32))
}

// A timestamps is the state of a limit of up to 64 requests: the number of admissions and their times, oldest first.
type timestamps []byte

func (s timestamps) len() int { return int(s[0]) }

func (s timestamps) at(i int) int64 { return getTime(s[1+i*timeBytes:]) }

func (s timestamps) set(i int, t int64) { putTime(s[1+i*timeBytes:], t) }

func getTime(b []byte) int64 { return int64(get48(b) | uint64(b[6])<<48) }

func putTime(b []byte, t int64) {
	put48(b, uint64(t))
	b[6] = byte(t >> 48)
}

// A ring is the state of a limit of more than 64 requests, and of a limit that was lowered while its window had more than 64 admissions:
// the number of the newest bucket, and the counts of the last 61 buckets. Bucket b has the admissions from b×width to (b+1)×width,
// exclusive. It counts until bucket b+61 begins: then all of its admissions have left the window.
type ring struct {
	width int64
	size  int // bytes of a count: 1, 2 or 4
	b     []byte
}

func newRing(r *rule, state []byte) ring { return ring{r.width, int(state[0] &^ ringTag), state} }

func (s ring) newest() int64 { return int64(get48(s.b[1:])) }

func (s ring) setNewest(b int64) { put48(s.b[1:], uint64(b)) }

func (s ring) get(b int64) int64 { return s.decodeCount(s.b[countsAt+int(b%numBuckets)*s.size:]) }

// decodeCount decodes one count.
func (s ring) decodeCount(b []byte) int64 {
	switch s.size {
	case 1:
		return int64(b[0])
	case 2:
		return int64(binary.LittleEndian.Uint16(b))
	default:
		return int64(binary.LittleEndian.Uint32(b))
	}
}

// set encodes a count, saturated at the largest number of its size, which is at least the limit.
func (s ring) set(b, n int64) {
	at := countsAt + int(b%numBuckets)*s.size
	switch s.size {
	case 1:
		s.b[at] = byte(min(n, math.MaxUint8))
	case 2:
		binary.LittleEndian.PutUint16(s.b[at:], uint16(min(n, math.MaxUint16)))
	default:
		binary.LittleEndian.PutUint32(s.b[at:], uint32(min(n, math.MaxUint32)))
	}
}

// holds reports whether bucket b is one of the last 61.
func (s ring) holds(b int64) bool {
	newest := s.newest()
	return b >= 0 && b <= newest && b > newest-numBuckets
}

func (s ring) add(t, n int64) {
	if b := t / s.width; s.holds(b) {
		s.set(b, s.get(b)+n)
	}
}

// counts returns the encoded counts. Bucket b is at index b modulo 61.
func (s ring) counts() []byte { return s.b[countsAt : countsAt+numBuckets*s.size] }

// total returns the sum of all counts. Every decision needs it for every limit, so it adds the counts of eight bytes at a time. The sum has
// lanes of twice the size of a count, which cannot overflow: of each eight bytes, it adds the counts at even positions, then those at odd
// positions.
func (s ring) total() int64 {
	const word, lanes16, lanes32 = 8, 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	lanes, shift := uint64(math.MaxUint32), 8*s.size
	switch s.size {
	case 1:
		lanes = lanes16
	case 2:
		lanes = lanes32
	}
	counts := s.counts()
	tail := len(counts) % word
	last := binary.LittleEndian.Uint64(counts[len(counts)-word:]) >> (8 * (word - tail))
	sum := last&lanes + last>>shift&lanes
	for counts = counts[:len(counts)-tail]; len(counts) >= word; counts = counts[word:] {
		w := binary.LittleEndian.Uint64(counts)
		sum += w&lanes + w>>shift&lanes
	}
	switch s.size {
	case 1:
		sum = sum&lanes32 + sum>>16&lanes32
		fallthrough
	case 2:
		sum = sum&math.MaxUint32 + sum>>32
	}
	return int64(sum)
}

// oldest returns the number of the oldest bucket with admissions. There must be one.
func (s ring) oldest() int64 {
	first := s.newest() - numBuckets + 1
	at := int(first % numBuckets)
	counts := s.counts()
	if i := nonZero(counts[at*s.size:]); i >= 0 {
		return first + int64(i/s.size)
	}
	return first + int64(numBuckets-at) + int64(nonZero(counts)/s.size)
}

// nonZero returns the index of the first byte that is not zero, or -1.
func nonZero(b []byte) int {
	const word = 8
	i := 0
	for ; i+word <= len(b); i += word {
		if w := binary.LittleEndian.Uint64(b[i:]); w != 0 {
			return i + bits.TrailingZeros64(w)/word
		}
	}
	for ; i < len(b); i++ {
		if b[i] != 0 {
			return i
		}
	}
	return -1
}
