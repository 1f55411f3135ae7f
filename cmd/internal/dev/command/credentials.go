package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeCredentials writes the file of --credentials with mode 0600 and renames it into place, so
// that no reader sees a part of it.
func writeCredentials(path string, s system) (err error) {
	tokens := make(map[string]string)
	for _, token := range s.Tokens {
		tokens[token.Name] = token.Text
	}
	text, err := json.MarshalIndent(map[string]any{
		"baseUrl": s.BaseURL, "adminUrl": s.AdminURL, "backendAddr": s.BackendAddr, "tokens": tokens,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the credentials: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".credentials-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write the credentials: %w", err)
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the credentials: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
