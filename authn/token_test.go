package authn_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	randv2 "math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

var format = authn.TokenFormat{Prefix: "ops_"}

// mint returns a token that is determined by the number.
func mint(number byte) string {
	token, err := format.New(randv2.NewChaCha8([32]byte{number}))
	if err != nil {
		panic(err)
	}
	return token
}

// The checksum is part of the contract with secret scanners and with other programs that make
// tokens.
func TestMintedTokensAreWellFormed(t *testing.T) {
	shape := regexp.MustCompile(`^ops_live_[0-9A-Za-z]{36}$`)
	seen := make(map[string]bool)
	for range 100 {
		token, err := format.New(rand.Reader)
		testkit.Must(t, err)
		if !shape.MatchString(token) || !format.Valid(token) || token[39:] != digitsOf(crc32.ChecksumIEEE([]byte(token[:39]))) {
			t.Errorf("New = %q", token)
		}
		if seen[token] {
			t.Errorf("%q was returned twice", token)
		}
		seen[token] = true
	}
}

func TestAnyChangedCharacterIsDetected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := []byte(mint(rapid.Byte().Draw(t, "number")))
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		changed := bytes.Clone(token)
		changed[at] = rapid.Byte().Filter(func(b byte) bool { return b != token[at] }).Draw(t, "to")
		if format.Valid(string(changed)) {
			t.Fatalf("%q is as valid as %q", changed, token)
		}
	})
}

func TestNewReturnsTheErrorOfItsRandomSource(t *testing.T) {
	broken := errors.New("no entropy")
	token, err := format.New(iotest.ErrReader(broken))
	if token != "" || !errors.Is(err, broken) {
		t.Errorf("New = %q, %v", token, err)
	}
}

func TestHashIsTheSHA256OfTheText(t *testing.T) {
	token := mint(1)
	if authn.Hash(token) != sha256.Sum256([]byte(token)) {
		t.Error("wrong hash")
	}
}

func TestPrefixes(t *testing.T) {
	for prefix, good := range map[string]bool{
		"ops_": true, "acme-": true, "o": true, strings.Repeat("x", 32): true,
		"": false, strings.Repeat("x", 33): false, "ops ": false, "öps_": false, "ops\n": false,
	} {
		if err := (authn.TokenFormat{Prefix: prefix}).Validate(); (err == nil) != good {
			t.Errorf("Validate(%q) = %v", prefix, err)
		}
	}
}

func FuzzTokenFormatValid(f *testing.F) {
	token := mint(1)
	for _, text := range []string{
		token, token[:44], token + "0", "", "ops_live_", "ops_live_000000000000000000000000000000000000",
		"dev_" + strings.TrimPrefix(token, "ops_"),
		strings.Replace(token, "live", "test", 1), " " + token, token + "\n", token[:12] + "é" + token[14:],
	} {
		f.Add(text)
	}
	shape := regexp.MustCompile(`^ops_live_[0-9A-Za-z]{36}$`)
	f.Fuzz(func(t *testing.T, token string) {
		valid := format.Valid(token)
		if want := shape.MatchString(token) && token[39:] == digitsOf(crc32.ChecksumIEEE([]byte(token[:39]))); valid != want {
			t.Errorf("%q is valid: %v", token, valid)
		}
		if !valid {
			return
		}
		if bearer, sent := authn.BearerToken([]string{"Bearer " + token}); bearer != token || !sent {
			t.Errorf("BearerToken rejects a valid token: %q, %v", bearer, sent)
		}
	})
}

// digitsOf returns a number as six digits of the alphabet 0-9A-Za-z.
func digitsOf(n uint32) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var digits string
	for range 6 {
		digits, n = string(alphabet[n%62])+digits, n/62
	}
	return digits
}
