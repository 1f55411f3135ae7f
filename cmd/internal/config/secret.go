package config

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// A Secret is a value that must not be seen: a file names it, and nothing prints it.
type Secret struct {
	value string
	file  string // that it was read from; "" for none
}

var (
	_ fmt.Stringer   = Secret{}
	_ fmt.GoStringer = Secret{}
	_ slog.LogValuer = Secret{}
	_ fmt.Stringer   = (*Secret)(nil)
)

const hidden = "(hidden)"

// Reveal returns the secret itself, or "" where there is none.
func (s Secret) Reveal() string { return s.value }

// String returns a word in the secret's place, or "" where there is no secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// GoString is String: %#v prints no secret either.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for the log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// secretFileMax bounds the file that a secret is read from.
const secretFileMax = 64 << 10

// A secretSource finds the secrets that a configuration names.
type secretSource struct {
	environment map[string]string
}

var reference = regexp.MustCompile(`^\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^}]+))\}$`)

// resolve returns the secret that the text names. Its errors hold nothing of the text, which may be the secret itself.
func (s secretSource) resolve(text string) (Secret, error) {
	if text == "" {
		return Secret{}, nil
	}
	match := reference.FindStringSubmatch(text)
	if match == nil {
		return Secret{}, errSecretInFile
	}
	name, path := match[1], match[2]
	if path == "" {
		value, ok := s.environment[name]
		if !ok || value == "" {
			return Secret{}, fmt.Errorf("names the variable %s, which is not set", name)
		}
		return Secret{value: value}, nil
	}
	return readSecret(path)
}

func readSecret(path string) (Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Secret{}, fmt.Errorf("names a file that cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > secretFileMax {
		return Secret{}, fmt.Errorf("names %s, which is not a file of at most %s", path, Bytes(secretFileMax))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("names a file that cannot be read: %w", err)
	}
	value := strings.TrimRight(string(content), "\r\n") // editors end the line
	if value == "" {
		return Secret{}, fmt.Errorf("names %s, which is empty", path)
	}
	return Secret{value: value, file: path}, nil
}
