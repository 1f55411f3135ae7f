package conformance

import (
	"context"
	"fmt"
	"slices"
)

// settled looks at what others may change meanwhile: where the state is another afterwards, it looks again, a few times.
func settled(ctx context.Context, state func() ([]string, error), look func(state []string) error) error {
	const tries = 5
	for try := 1; ; try++ {
		before, err := state()
		if err != nil {
			return err
		}
		found := look(before)
		if found == nil || try == tries {
			return found
		}
		after, err := state()
		if err != nil {
			return err
		}
		if slices.Equal(before, after) || ctx.Err() != nil {
			return found
		}
	}
}

// differentList returns a breach that names the first position at which two lists of ids differ. What describes the expected list.
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
