package config

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// A Secret is a value that is never printed.
type Secret struct {
	value string
	file  string // it was read from; "" for none
}

var (
	_ fmt.Stringer   = Secret{}
	_ fmt.GoStringer = Secret{}
	_ slog.LogValuer = Secret{}
	_ fmt.Stringer   = (*Secret)(nil)
)

const hidden = "(hidden)"

// Reveal returns the secret, or "" for none.
func (s Secret) Reveal() string { return s.value }

// String returns a placeholder, or "" for no secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for the log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// secretFileMax bounds the size of a file with a secret.
const secretFileMax = 64 << 10

// A secretSource resolves references to secrets.
type secretSource struct {
	environment map[string]string
}

var reference = regexp.MustCompile(`^\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^}]+))\}$`)

// resolve returns the secret that the text refers to. Its errors do not contain the text, which may be a secret itself.
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
