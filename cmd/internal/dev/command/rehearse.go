package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/dev/rehearsal"
)

// newRehearsal returns the rehearsal; nil for none.
func newRehearsal(o options, tokens []demo.Token, logger *slog.Logger) *rehearsal.Rehearsal {
	if !o.Rehearse {
		return nil
	}
	names := make(map[string]string, len(tokens))
	for _, token := range tokens {
		names[token.Text] = token.Name
	}
	return rehearsal.New(rehearsal.Options{Seed: o.Seed, Tokens: names, Logger: logger})
}

// report prints the score, and writes it as a JUnit report to a file unless its name is empty. It returns an error if the client failed an
// item.
func report(s rehearsal.Score, out io.Writer, junit string) error {
	if err := s.Print(out); err != nil {
		return fmt.Errorf("print the score: %w", err)
	}
	if junit != "" {
		var text bytes.Buffer
		if err := errors.Join(s.JUnit(&text), os.WriteFile(junit, text.Bytes(), 0o600)); err != nil {
			return fmt.Errorf("write the JUnit report: %w", err)
		}
	}
	if failed := s.Count(rehearsal.Failed); failed > 0 {
		return fmt.Errorf("the client failed %d of %d items of the rehearsal", failed, len(s.Items))
	}
	return nil
}
