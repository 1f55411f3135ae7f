package command

import (
	"math/big"
	"strings"
	"testing"
)

// A valid bound is exceeded by larger values only.
func FuzzBound(f *testing.F) {
	for _, text := range []string{"0", "0%", "0.1%", "100%", "NaN%", "1e-3%", "-1%", "+5", "18446744073709551615", "", "%", "Inf%", "0x1p-2%", "101%"} {
		f.Add(text, uint64(1), uint64(1000))
	}
	f.Fuzz(func(t *testing.T, text string, n, all uint64) {
		var b bound
		if b.UnmarshalText([]byte(text)) != nil {
			return
		}
		if n, all = n%(1<<40), all%(1<<40)+1; n > all {
			return
		}
		number, isPercent := strings.CutSuffix(text, "%")
		limit, ok := new(big.Rat).SetString(number)
		if !ok || limit.Sign() < 0 {
			t.Fatalf("%q is accepted", text)
		}
		got := new(big.Rat).SetUint64(n)
		if isPercent {
			got = new(big.Rat).Mul(got, big.NewRat(100, 1))
			got.Quo(got, new(big.Rat).SetUint64(all))
		}
		distance := new(big.Rat).Sub(got, limit)
		if near := new(big.Rat).Abs(distance); near.Cmp(big.NewRat(1, 1e9)) < 0 && near.Sign() != 0 {
			return // the precision of a percent
		}
		if isPercent && distance.Sign() == 0 {
			return // a decimal fraction is rounded
		}
		if want := distance.Sign() > 0; b.exceededBy(n, all) != want {
			t.Errorf("%q, %d of %d: %v", text, n, all, !want)
		}
	})
}
