package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// credentials is the content of the file of --credentials.
type credentials struct {
	BaseURL     string            `json:"baseUrl"`
	AdminURL    string            `json:"adminUrl"`
	InboxURL    string            `json:"inboxUrl"`
	BackendAddr string            `json:"backendAddr"`
	Tokens      map[string]string `json:"tokens"`
}

// writeCredentials writes the file with mode 0600 and renames it into place, so that no reader sees a part of it.
func writeCredentials(path string, s system) (err error) {
	c := credentials{
		BaseURL: s.BaseURL, AdminURL: s.AdminURL, InboxURL: s.InboxURL, BackendAddr: s.BackendAddr, Tokens: make(map[string]string),
	}
	for _, token := range s.Tokens {
		c.Tokens[token.Name] = token.Text
	}
	text, err := json.MarshalIndent(c, "", "  ")
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
