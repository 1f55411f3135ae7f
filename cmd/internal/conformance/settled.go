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

// difference says where two lists of ids begin to differ.
func difference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return want[i] + " is left out, and all after it"
		case i >= len(want):
			return got[i] + " is one too many"
		case want[i] != got[i]:
			return fmt.Sprintf("%s in the place of %s (row %d)", got[i], want[i], i+1)
		}
	}
	return "no difference"
}
