package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"opsgate/internal/configfile"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// Fixtures are what the checks cannot read from the services.
type Fixtures struct {
	Teams [2]Team
	// RevokedToken is the SHA-256 of a revoked token, or nil.
	RevokedToken []byte
	// Tokens are tokens whose scopes and plan are known.
	Tokens []Token
	// Revocable is a live token that a check revokes.
	Revocable Revocable
}

// A Token is what ResolveToken has to return for a hash.
type Token struct {
	Hash   []byte
	Team   string // "" if the fixtures do not name it
	Scopes []string
	Plan   identityv1.Plan
}

// A Revocable is a token, as its SHA-256, and a function that revokes it; nil if the fixtures have
// none.
type Revocable struct {
	Token  []byte
	Revoke func(context.Context) error
}

// A Team is the fixtures of one team.
type Team struct {
	ID string
	// Token is the SHA-256 of a live token of the team, or nil.
	Token []byte
	// Rows are how many rows the team has at least, by the field of the list's response, such as
	// "servers". Lists may be missing.
	Rows map[string]int
	// MetricsDays is the age of the oldest metrics of the server with the most in days; 0 if it is
	// not known.
	MetricsDays int
	// LinkedComponent is the id of a component that is linked to a monitor, and LinkedMonitor that
	// of the monitor, which is not up; or "".
	LinkedComponent, LinkedMonitor string
}

// document is the content of the file.
type document struct {
	Teams []struct {
		ID              string         `yaml:"id"`
		Token           tokenReference `yaml:"token"`
		Rows            map[string]int `yaml:"rows"`
		MetricsDays     int            `yaml:"metrics_days"`
		LinkedComponent string         `yaml:"linked_component"`
		LinkedMonitor   string         `yaml:"linked_monitor"`
	} `yaml:"teams"`
	RevokedToken tokenReference `yaml:"revoked_token"`
	Tokens       []struct {
		Token  tokenReference `yaml:"token"`
		Team   string         `yaml:"team"`
		Scopes []string       `yaml:"scopes"`
		Plan   string         `yaml:"plan"`
	} `yaml:"tokens"`
	Revoke struct {
		Token   tokenReference `yaml:"token"`
		Command []string       `yaml:"command"`
	} `yaml:"revoke"`
}

// A tokenReference names the source of a token, or is its hash.
type tokenReference string

// maxMetricsDays is the length of the longest range of metrics.
const maxMetricsDays = 30

// Load reads fixtures from a YAML file, and the tokens that it names from the environment (in the
// form of os.Environ) or from other files. Its error reports all problems, and contains no token.
func Load(path string, environment []string) (Fixtures, error) {
	content, err := configfile.Read(path)
	if err != nil {
		return Fixtures{}, fmt.Errorf("read the fixtures: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var d document
	if err := decoder.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return Fixtures{}, fmt.Errorf("read the fixtures in %s: %s", path, configfile.YAMLErrorText(err))
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
		// one team may use an id twice
		if other := keys[id]; other != "" && other[:len("teams[0]")] != key[:len("teams[0]")] {
			refuse("%s: is also the id of %s", key, other)
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
		if t.MetricsDays < 0 || t.MetricsDays > maxMetricsDays {
			refuse("%s.metrics_days: must be 0 to %d", at, maxMetricsDays)
		}
		for _, name := range slices.Sorted(maps.Keys(t.Rows)) {
			if !slices.Contains(countedRows(), name) {
				refuse("%s.rows: must be of %s, not %s", at, strings.Join(countedRows(), ", "), name)
			} else if t.Rows[name] < 1 {
				refuse("%s.rows.%s: must be at least 1", at, name)
			}
		}
		if (t.LinkedComponent == "") != (t.LinkedMonitor == "") {
			refuse("%s: linked_component and linked_monitor must both be set, or none", at)
		} else if t.LinkedComponent != "" {
			add(at+".linked_component", t.LinkedComponent)
			add(at+".linked_monitor", t.LinkedMonitor)
		}
		f.Teams[i] = Team{
			ID: t.ID, Rows: t.Rows, MetricsDays: t.MetricsDays, LinkedComponent: t.LinkedComponent,
			LinkedMonitor: t.LinkedMonitor,
		}
		if f.Teams[i].Token, err = t.Token.hash(environment); err != nil {
			refuse("%s.token: %w", at, err)
		}
	}
	if f.RevokedToken, err = d.RevokedToken.hash(environment); err != nil {
		refuse("revoked_token: %w", err)
	}
	f.addTokens(d, environment, refuse)
	return f, errors.Join(problems...)
}

// addTokens adds the tokens with known properties, and the token to revoke.
func (f *Fixtures) addTokens(d document, environment []string, refuse func(format string, args ...any)) {
	for i, t := range d.Tokens {
		at := fmt.Sprintf("tokens[%d]", i)
		hash, err := t.Token.hash(environment)
		plan, known := identityv1.Plan_value["PLAN_"+strings.ToUpper(t.Plan)]
		switch {
		case err != nil:
			refuse("%s.token: %w", at, err)
		case hash == nil:
			refuse("%s.token: is missing", at)
		case !known:
			refuse("%s.plan: must be basic or ai", at)
		case t.Team != "" && !isID(t.Team):
			refuse("%s.team: must be a UUID in lower case", at)
		}
		f.Tokens = append(f.Tokens, Token{Hash: hash, Team: t.Team, Scopes: t.Scopes, Plan: identityv1.Plan(plan)})
	}
	hash, err := d.Revoke.Token.hash(environment)
	if err != nil {
		refuse("revoke.token: %w", err)
	}
	if (hash == nil) != (len(d.Revoke.Command) == 0) {
		refuse("revoke: token and command must both be set, or none")
	} else if hash != nil {
		f.Revocable = Revocable{Token: hash, Revoke: runner(d.Revoke.Command)}
	}
}

// runner returns a function that runs a command. Its output goes to standard error, and not into
// the report: it may contain a token.
func runner(command []string) func(context.Context) error {
	return func(ctx context.Context) error {
		c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the operator's own fixtures
		c.Stdout, c.Stderr, c.WaitDelay = os.Stderr, os.Stderr, time.Second
		if err := c.Run(); err != nil {
			return fmt.Errorf("run %s: %w", command[0], err)
		}
		return nil
	}
}

// hash returns the hash of the token, or nil if the reference is empty. Its errors do not contain
// the text, which may be a token.
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
	token, _, err := configfile.ResolveSecret(string(r), func(name string) string {
		for _, variable := range environment {
			if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
				return value
			}
		}
		return ""
	}, nil)
	if errors.Is(err, configfile.ErrNoReference) {
		err = errors.New("must be a reference (${NAME} or ${file:PATH}) or a hash (sha256:DIGITS), not a token")
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(token))
	return hash[:], nil
}

// isID reports whether an id is a UUID in lower case, 8-4-4-4-12.
func isID(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && parsed.String() == id
}
