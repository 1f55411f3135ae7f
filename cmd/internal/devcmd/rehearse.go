package devcmd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"opsgate/cmd/internal/commandline"
	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/rehearsal"
)

// defaultSeed is the seed of --rehearse without --seed: fixed, so that two runs are the same.
const defaultSeed uint64 = 1

// seed returns the seed of the rehearsal; nil for none.
func (f *flags) seed() (*uint64, error) {
	switch {
	case !f.Rehearse && f.Seed != nil:
		return nil, commandline.UsageError{Err: errors.New("--seed needs --rehearse")}
	case f.Rehearse && f.Seed == nil:
		seed := defaultSeed
		return &seed, nil
	}
	return f.Seed, nil
}

// newRehearsal returns a rehearsal with the seed; nil for none.
func newRehearsal(seed *uint64, tokens []demo.Token, logger *slog.Logger) *rehearsal.Rehearsal {
	if seed == nil {
		return nil
	}
	names := make(map[string]string, len(tokens))
	for _, token := range tokens {
		names[token.Text] = token.Name
	}
	return rehearsal.New(rehearsal.Options{Seed: *seed, Tokens: names, Logger: logger})
}

// report prints the score. It returns an error if the client failed an item.
func report(s rehearsal.Score, out io.Writer) error {
	if err := s.Print(out); err != nil {
		return fmt.Errorf("print the score: %w", err)
	}
	if failed := s.Count(rehearsal.Failed); failed > 0 {
		return fmt.Errorf("the client failed %d of %d items of the rehearsal", failed, len(s.Items))
	}
	return nil
}
