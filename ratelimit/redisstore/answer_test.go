package redisstore

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"opsgate/ratelimit"
)

// Whatever is answered, it is an error, or a decision over the limits of the policy that says what the answer does.
func FuzzAnswers(f *testing.F) {
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{
		{Name: "tried", Requests: 1, Per: time.Second, Shadow: true}, {Name: "second", Requests: 3, Per: time.Second},
	})
	if err != nil {
		f.Fatal(err)
	}
	pl := newPlan(p, true)
	whole := make([]byte, answerHead+2*answerLimit)
	f.Add(whole)
	f.Add(whole[:answerHead])
	f.Add([]byte{})
	for _, by := range [][2]byte{{1, 2}, {3, 0}, {0, 3}, {2, 0}} {
		refused := bytes.Clone(whole)
		refused[24], refused[25] = by[0], by[1]
		binary.LittleEndian.PutUint64(refused, math.Float64bits(1767322800e6))
		binary.LittleEndian.PutUint64(refused[16:], math.Float64bits(340_000))
		f.Add(refused)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, err := pl.decision(answer)
		if good := len(answer) == len(whole) && answer[24] <= 2 && answer[25] <= 2; good != (err == nil) {
			t.Fatalf("%d bytes: %v", len(answer), err)
		}
		if err != nil {
			return
		}
		if d.Allowed != (d.Denied == -1) || d.Denied < -1 || d.Denied > 1 || d.Shadowed < -1 || d.Shadowed > 1 {
			t.Errorf("%+v", d)
		}
		if !isWhole(answer[0:]) || !isWhole(answer[8:]) || !isWhole(answer[16:]) || !isWhole(answer[30:]) || !isWhole(answer[42:]) {
			return // no script of ours says that
		}
		if again := answerOf(pl, d); !bytes.Equal(again, answer) {
			t.Errorf("%x is read as %+v, which is %x", answer, d, again)
		}
	})
}

// isWhole says whether the bytes are a whole number that a time in µs may be, written in the one way that Lua does.
func isWhole(b []byte) bool {
	n := math.Float64frombits(binary.LittleEndian.Uint64(b))
	return n == math.Trunc(n) && n >= 0 && n < 1<<52 && !math.Signbit(n)
}

// answerOf writes a decision as decide.lua does.
func answerOf(pl *plan, d ratelimit.Decision) []byte {
	place := func(limit int) byte {
		for i, at := range pl.order {
			if at == limit {
				return byte(i + 1)
			}
		}
		return 0
	}
	float := func(b []byte, n int64) []byte {
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	b := float(float(float(nil, d.At.UnixMicro()), int64(d.Serial)), d.RetryAfter.Microseconds())
	b = append(b, place(d.Denied), place(d.Shadowed))
	for _, i := range pl.order {
		b = float(binary.LittleEndian.AppendUint32(b, uint32(d.Budgets[i].Remaining)), d.Budgets[i].Reset.Microseconds())
	}
	return b
}

// What Redis is told of an outage is as much as was spent, none of it older than it is, and bounded.
func FuzzSpendings(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, uint32(1))
	f.Add(bytes.Repeat([]byte{200, 1}, 2*maxSpendings+1), uint32(1<<31))
	f.Fuzz(func(t *testing.T, steps []byte, scale uint32) {
		var list []ratelimit.Spending
		var age time.Duration
		want := uint64(0)
		for i := 0; i+1 < len(steps); i += 2 {
			age += time.Duration(steps[i]) * time.Duration(scale)
			list = append(list, ratelimit.Spending{Age: age, N: int(steps[i+1])})
			want += uint64(steps[i+1])
		}
		told := packed(list)
		if len(told)%12 != 0 || len(told)/12 > maxSpendings {
			t.Fatalf("%d bytes for %d", len(told), len(list))
		}
		group := max(1, (len(list)+maxSpendings-1)/maxSpendings)
		got, last := uint64(0), int64(0)
		for i := 0; i < len(told); i += 12 {
			micros := number([]byte(told[i : i+8]))
			got += uint64(binary.LittleEndian.Uint32([]byte(told[i+8:])))
			if youngest := list[i/12*group].Age; micros > youngest.Microseconds() || micros < last {
				t.Errorf("%v is told as %d µs after %d µs", youngest, micros, last)
			}
			last = micros
		}
		if got != want {
			t.Errorf("%d were spent, %d are told", want, got)
		}
	})
}
