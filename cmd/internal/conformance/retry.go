package conformance

import (
	"context"
	"fmt"
	"slices"
)

// retryOnChange runs a check on data that other clients may change. If the check fails and the state has changed meanwhile, it runs the
// check again, up to five times.
func retryOnChange(ctx context.Context, state func() ([]string, error), check func(state []string) error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		before, err := state()
		if err != nil {
			return err
		}
		failure := check(before)
		if failure == nil || attempt == attempts {
			return failure
		}
		after, err := state()
		if err != nil {
			return err
		}
		if slices.Equal(before, after) || ctx.Err() != nil {
			return failure
		}
	}
}

// differentList returns a breach that names the first position at which two lists of ids differ. The breach begins with the text what.
func differentList(what string, want, got []string) error {
	at := func(list []string, i int) string {
		if i < len(list) {
			return fmt.Sprintf("%q as row %d of %d", list[i], i+1, len(list))
		}
		return fmt.Sprintf("no row %d, only %d", i+1, len(list))
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	return expected(what+": "+at(want, i), "%s", at(got, i))
}
