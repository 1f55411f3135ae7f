package demand

import (
	"math"
	"math/bits"
)

// A sample is a part of all tokens. A larger sample contains every smaller one.
type sample struct {
	below uint64 // tokens with a smaller 53-bit hash are in the sample
}

func newSample(share float64) sample {
	return sample{below: uint64(share * (1 << 53))}
}

// contains reports whether the token is in the sample.
func (s sample) contains(tokenID string) bool {
	return hash(tokenID)>>11 < s.below
}

// hash must never change: gateways of different versions record the same tokens. It is FNV-1a with eight bytes in a step and wyhash's
// folded multiplication.
func hash(s string) uint64 {
	const factor = 0x9e37_79b9_7f4a_7c15
	h := uint64(len(s)) ^ math.MaxUint64
	for ; len(s) >= 8; s = s[8:] {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = fold(h^word, factor)
	}
	for i := range len(s) {
		h = fold(h^uint64(s[i])<<32, factor)
	}
	return fold(h, factor)
}

// fold returns the exclusive or of both halves of the product.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
