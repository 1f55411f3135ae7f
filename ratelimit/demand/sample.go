package demand

import (
	"math"
	"math/bits"
)

// A sample is a part of all tokens. A larger one has all tokens of a smaller one.
type sample struct {
	share float64
	below uint64 // tokens whose hash is less, but for the whole
}

func newSample(share float64) sample {
	return sample{share: share, below: uint64(share * (1 << 53))}
}

func (s sample) has(tokenID string) bool {
	return hash(tokenID)>>11 < s.below
}

// hash must never change: gateways of different versions record the same tokens. It takes eight bytes at a time, as FNV does one, and
// folds each product, as wyhash does.
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

// fold multiplies, and mixes the high half of the product into the low one.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
