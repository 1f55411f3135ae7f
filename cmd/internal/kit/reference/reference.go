// Package reference reads secrets that files refer to: ${NAME} for a variable, or ${file:PATH}.
package reference

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// MaxFile is the maximum size of a file with a secret.
const MaxFile = 64 << 10

// ErrNone is the error for a text that is no reference. The text may be a secret itself.
var ErrNone = errors.New("must not be the secret itself, but a reference: ${NAME} for a variable or ${file:PATH}")

var form = regexp.MustCompile(`^\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^}]+))\}$`)

// Resolve returns the secret that the text refers to, and the path of its file; "" for a variable, which get returns. Its errors do not
// contain the text.
func Resolve(text string, get func(name string) string) (secret, path string, err error) {
	match := form.FindStringSubmatch(text)
	if match == nil {
		return "", "", ErrNone
	}
	if path = match[2]; path == "" {
		if secret = get(match[1]); secret == "" {
			err = fmt.Errorf("names the variable %s, which is not set", match[1])
		}
		return secret, "", err
	}
	if err := CheckFile(path); err != nil {
		return "", path, err
	}
	content, err := ReadFile(path, MaxFile)
	if err != nil {
		return "", path, fmt.Errorf("names a file that cannot be read: %w", err)
	}
	if secret = strings.TrimRight(string(content), "\r\n"); secret == "" { // editors end the line
		err = fmt.Errorf("names %s, which is empty", path)
	}
	return secret, path, err
}

// CheckFile returns an error if a path is not that of a file that can be read.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("names a file that cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("names %s, which is not a file", path)
	}
	opened, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("names a file that cannot be read: %w", err)
	}
	return opened.Close()
}

// ReadFile returns the content of a file of at most a size in bytes.
func ReadFile(path string, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, size+1))
	if err == nil && int64(len(content)) > size {
		err = fmt.Errorf("%s is larger than %d bytes", path, size)
	}
	return content, err
}
