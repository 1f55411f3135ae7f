package authn

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

const (
	liveMarker     = "live_"
	secretLength   = 30 // 30 × log2(62) ≈ 178 bits
	checksumLength = 6  // 62^6 > 2^32
	maxPrefix      = 32
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// TokenFormat is the format of the live tokens of an installation:
//
//	<Prefix>live_ + 30 random base62 characters + 6 base62 digits of checksum
//
// The checksum is the CRC-32 (IEEE) of everything before it, as a big-endian number in the alphabet
// 0-9A-Za-z. It is not secret: a mistyped or truncated token is rejected without a lookup, and
// secret scanners can recognize tokens.
type TokenFormat struct {
	// Prefix precedes "live_": 1 to 32 characters of A-Z, a-z, 0-9, "_" and "-", such as "ops_".
	Prefix string
}

// Validate returns an error if the format is invalid.
func (f TokenFormat) Validate() error {
	if f.Prefix == "" || len(f.Prefix) > maxPrefix {
		return fmt.Errorf("token prefix of %d characters: must be 1 to %d", len(f.Prefix), maxPrefix)
	}
	for i := range len(f.Prefix) {
		if c := f.Prefix[i]; !isBase62(c) && c != '_' && c != '-' {
			return errors.New("token prefix: only letters, digits, \"_\" and \"-\" are allowed")
		}
	}
	return nil
}

// Valid reports whether the token has the format, checksum included. A token that does not exist
// may have it too.
func (f TokenFormat) Valid(token string) bool {
	rest, ok := strings.CutPrefix(token, f.Prefix)
	if !ok {
		return false
	}
	rest, ok = strings.CutPrefix(rest, liveMarker)
	if !ok || len(rest) != secretLength+checksumLength {
		return false
	}
	for i := range secretLength {
		if !isBase62(rest[i]) {
			return false
		}
	}
	sum := checksum(token[:len(token)-checksumLength])
	return string(sum[:]) == rest[secretLength:]
}

// New returns a new live token. Random is [crypto/rand.Reader] except in tests and demo data. New
// fails only if random fails.
func (f TokenFormat) New(random io.Reader) (string, error) {
	token := make([]byte, 0, len(f.Prefix)+len(liveMarker)+secretLength+checksumLength)
	token = append(token, f.Prefix...)
	token = append(token, liveMarker...)
	for end := len(token) + secretLength; len(token) < end; {
		var chunk [secretLength]byte
		if _, err := io.ReadFull(random, chunk[:]); err != nil {
			return "", fmt.Errorf("mint a token: %w", err)
		}
		for _, b := range chunk {
			// Two of 64 values are discarded, so that all characters are equally likely.
			if digit := int(b & 63); digit < len(base62) && len(token) < end {
				token = append(token, base62[digit])
			}
		}
	}
	sum := checksum(string(token))
	return string(append(token, sum[:]...)), nil
}

// Hash returns the SHA-256 of the token, the key by which caches and the identity service identify
// it. It needs neither a salt nor a slow function, as a token has too much entropy to be found by
// its hash.
func Hash(token string) [sha256.Size]byte {
	var buffer [128]byte // on the stack, and larger than any token
	return sha256.Sum256(append(buffer[:0], token...))
}

// checksum iterates over the string: [crc32.ChecksumIEEE] would copy it to the heap for each
// request.
func checksum(body string) [checksumLength]byte {
	crc := ^uint32(0)
	for i := range len(body) {
		crc = crc32.IEEETable[byte(crc)^body[i]] ^ crc>>8
	}
	crc = ^crc
	var digits [checksumLength]byte
	for i := checksumLength - 1; i >= 0; i-- {
		digits[i] = base62[crc%uint32(len(base62))]
		crc /= uint32(len(base62))
	}
	return digits
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
