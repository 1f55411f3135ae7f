package ratelimit

import "math/bits"

const wordBits = 64

// A field is an array of unsigned numbers of the same width, packed one after the other in words.
type field struct {
	offset uint32 // in bits
	bits   uint32 // of one number, less than wordBits
}

// bitsOf is the width that n needs.
func bitsOf(n int64) int { return bits.Len64(uint64(n)) }

// limit is the largest number that the field can hold.
func (f field) limit() uint64 { return 1<<f.bits - 1 }

func (f field) get(words []uint64, i int) uint64 {
	at := f.offset + uint32(i)*f.bits
	word, shift := at/wordBits, at%wordBits
	v := words[word] >> shift
	if shift+f.bits > wordBits {
		v |= words[word+1] << (wordBits - shift)
	}
	return v & f.limit()
}

func (f field) set(words []uint64, i int, v uint64) {
	at := f.offset + uint32(i)*f.bits
	word, shift := at/wordBits, at%wordBits
	words[word] = words[word]&^(f.limit()<<shift) | v<<shift
	if shift+f.bits > wordBits {
		past := wordBits - shift
		words[word+1] = words[word+1]&^(f.limit()>>past) | v>>past
	}
}
