package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"opsgate/internal/filereader"
)

// ErrNoReference is the error for a text that is no reference. The text may be a secret itself.
var ErrNoReference = errors.New("must not be the secret itself, but a reference: ${NAME} for a variable or " +
	"${file:PATH}")

var form = regexp.MustCompile(`^\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^}]+))\}$`)

// ResolveSecret returns the secret that the text refers to, and the path of its file; "" for a
// variable, which get returns. The Reader reads the file; nil for one reading. The errors do not
// contain the text.
func ResolveSecret(
	text string, get func(name string) string, files *filereader.Reader,
) (secret, path string, err error) {
	match := form.FindStringSubmatch(text)
	if match == nil {
		return "", "", ErrNoReference
	}
	if path = match[2]; path == "" {
		if secret = withoutLineEnd(get(match[1])); secret == "" {
			err = fmt.Errorf("names the variable %s, which is not set", match[1])
		}
		return secret, "", err
	}
	content, err := cmp.Or(files, new(filereader.Reader)).Read(path)
	if err != nil {
		return "", path, fmt.Errorf("names a file that cannot be read: %w", err)
	}
	if secret = withoutLineEnd(string(content)); secret == "" {
		err = fmt.Errorf("names %s, which is empty", path)
	}
	return secret, path, err
}

// withoutLineEnd returns a secret without the line end that editors and commands add.
func withoutLineEnd(secret string) string { return strings.TrimRight(secret, "\r\n") }

// Read returns the content of a file that refers to secrets and is read once. It may be a pipe.
func Read(path string) ([]byte, error) { return new(filereader.Reader).ReadAny(path) }
