package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/kit/yamlerror"
)

// A Kind is a kind of resource. Fixtures name one resource of each kind for each team.
type Kind string

// Kinds of resources.
const (
	Server     Kind = "server"
	Monitor    Kind = "monitor"
	Incident   Kind = "incident"
	StatusPage Kind = "status_page"
	Component  Kind = "component" // on the status page
)

// Fixtures are the data of the services that the checks use.
type Fixtures struct {
	Teams [2]Team
	// RevokedToken is the SHA-256 of a revoked token, or nil.
	RevokedToken []byte
}

// A Team is the fixtures of one team.
type Team struct {
	ID string
	// Token is the SHA-256 of a live token of the team, or nil.
	Token []byte
	// Resources are the ids of the team's resources, by kind. Kinds may be missing.
	Resources map[Kind]string
}

// document is the content of the file.
type document struct {
	Teams []struct {
		ID        string            `yaml:"id"`
		Token     tokenReference    `yaml:"token"`
		Resources map[string]string `yaml:",inline"`
	} `yaml:"teams"`
	RevokedToken tokenReference `yaml:"revoked_token"`
}

// A tokenReference names the source of a token, or is its hash.
type tokenReference string

// maxFile is the maximum size of fixtures and token files.
const maxFile = 64 << 10

// Load reads fixtures from a YAML file, and the tokens that it names from the environment (in the form of os.Environ) or from other files.
// Its error reports all problems, and contains no token.
func Load(path string, environment []string) (Fixtures, error) {
	content, err := readFile(path)
	if err != nil {
		return Fixtures{}, fmt.Errorf("read the fixtures: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var d document
	if err := decoder.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return Fixtures{}, fmt.Errorf("read the fixtures in %s: %s", path, yamlerror.Text(err))
	}
	fixtures, err := d.fixtures(environment)
	if err != nil {
		return Fixtures{}, fmt.Errorf("fixtures in %s: %w", path, err)
	}
	return fixtures, nil
}

func (d document) fixtures(environment []string) (f Fixtures, err error) {
	if len(d.Teams) != len(f.Teams) {
		return f, fmt.Errorf("teams: must be two, not %d", len(d.Teams))
	}
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	keys := map[string]string{} // by id
	add := func(key, id string) {
		if keys[id] != "" {
			refuse("%s: is also the id of %s", key, keys[id])
		} else if !isID(id) {
			refuse("%s: must be a UUID in lower case", key)
		}
		keys[id] = key
	}
	for i, t := range d.Teams {
		at := fmt.Sprintf("teams[%d]", i)
		if t.ID == "" {
			refuse("%s.id: is missing", at)
		} else {
			add(at+".id", t.ID)
		}
		f.Teams[i] = Team{ID: t.ID, Resources: map[Kind]string{}}
		for _, name := range slices.Sorted(maps.Keys(t.Resources)) {
			kind, id := Kind(name), t.Resources[name]
			if !slices.Contains([]Kind{Server, Monitor, Incident, StatusPage, Component}, kind) {
				refuse("%s: field %s not found", at, name)
			} else if id != "" {
				add(at+"."+name, id)
				f.Teams[i].Resources[kind] = id
			}
		}
		if f.Teams[i].Token, err = t.Token.hash(environment); err != nil {
			refuse("%s.token: %w", at, err)
		}
	}
	if f.RevokedToken, err = d.RevokedToken.hash(environment); err != nil {
		refuse("revoked_token: %w", err)
	}
	return f, errors.Join(problems...)
}

var reference = regexp.MustCompile(`^\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^}]+))\}$`)

// hash returns the hash of the token, or nil if the reference is empty. Its errors do not contain the text, which may be a token.
func (r tokenReference) hash(environment []string) ([]byte, error) {
	if r == "" {
		return nil, nil
	}
	if digits, ok := strings.CutPrefix(string(r), "sha256:"); ok {
		hash, err := hex.DecodeString(digits)
		if err != nil || len(hash) != sha256.Size {
			return nil, errors.New("must be sha256: and 64 hexadecimal digits")
		}
		return hash, nil
	}
	match := reference.FindStringSubmatch(string(r))
	if match == nil {
		return nil, errors.New("must be a reference (${NAME} or ${file:PATH}) or a hash (sha256:DIGITS), not a token")
	}
	token, err := lookup(match[1], match[2], environment)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(token))
	return hash[:], nil
}

// lookup returns the content of the file if path is not empty, or else the value of the variable.
func lookup(name, path string, environment []string) (string, error) {
	if path != "" {
		content, err := readFile(path)
		value := strings.TrimRight(string(content), "\r\n") // editors end the line
		switch {
		case err != nil:
			return "", fmt.Errorf("names a file that cannot be read: %w", err)
		case value == "":
			return "", fmt.Errorf("names %s, which is empty", path)
		}
		return value, nil
	}
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
			return value, nil
		}
	}
	return "", fmt.Errorf("names the variable %s, which is not set", name)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return content, err
}

// isID reports whether an id is a UUID in lower case, 8-4-4-4-12.
func isID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.String() == id
}
