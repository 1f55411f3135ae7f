package redisstore

import (
	"testing"
	"time"

	"opsgate/ratelimit"
)

// Whatever is answered, it is a decision over the limits of the policy, or an error.
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
	refused := append([]byte{}, whole...)
	refused[24], refused[25] = 1, 2
	f.Add(refused)
	refused[24] = 3
	f.Add(refused)
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, err := pl.decision(answer)
		if err != nil {
			return
		}
		if d.Allowed != (d.Denied == -1) || d.Denied < -1 || d.Denied > 1 || d.Shadowed < -1 || d.Shadowed > 1 {
			t.Errorf("%+v", d)
		}
	})
}
