package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	writable "github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

const exampleHeader = `# An example configuration of opsgate, made by make generate: every key with its default. Only the
# addresses of upstreams have no default and are required.
#
#   opsgate check --config opsgate.yaml    reports problems with file, line and key
#   opsgate schema                         prints the JSON Schema, for editors
#
# An environment variable overrides its key: OPSGATE_ and the key in upper case with _ for each dot,
# as OPSGATE_RATE_LIMIT_STORE. A list takes commas or YAML, as OPSGATE_TRUSTED_PROXIES='10.0.0.0/8,
# 192.0.2.0/24'. Durations are written as 250ms, 30s or 1h30m, sizes as 4096, 128KiB or 8MiB.
# A change of the file is applied while the gateway runs, but of keys marked (restart) at its start.
`

// entries are examples of keys whose entries have free names or are of more kinds than the default.
var entries = map[string]string{
	"routes": `
v1GetServerMetrics: {timeout: 20s}
`,
	"limits": `
- {requests: 50000, per: 24h, shadow: true}
`,
	"classes": `
partner:
  limits: [{requests: 20, per: 1s}, {requests: 50000, per: 1h}]
  teams: [018f2f6e-0000-7000-8000-000000000001]
  owner: partners@example.com
  reason: contract 2031
`,
	"teams": `
018f2f6e-0000-7000-8000-000000000002:
  limits: [{requests: 10, per: 1s}]
  owner: on-call
  reason: they migrate this week
  expires: 2099-01-31T12:00:00Z # set it to the end of the migration
`,
	"tokens": `
018f2f6e-0000-7000-8000-000000000003:
  limits: [{requests: 1, per: 10s}]
  reason: a loop in their script
`,
}

// The example is made from the structs. Users copy it.
func TestExampleIsCurrent(t *testing.T) {
	mustBeCurrent(t, exampleFile, exampleHeader+example(t, orderedSchema(t), "", ""))
	got, err := load(exampleFile)
	testkit.Must(t, err)
	want := config.Default()
	want.Upstreams = got.Upstreams // these have no defaults
	if diff := cmp.Diff(want, got.Config, compareSecrets()); diff != "" {
		t.Error(diff)
	}
}

// example returns the keys of a mapping, of which parent is the key, as YAML: each with its
// description and its default.
func example(t *testing.T, mapping *writable.Schema, parent, indent string) string {
	t.Helper()
	text := new(strings.Builder)
	for key, schema := range mapping.Properties.FromOldest() {
		if indent == "" {
			text.WriteByte('\n')
		}
		text.WriteString(comment(description(schema), indent))
		fmt.Fprintf(text, "%s%s:", indent, key)
		switch address := fmt.Sprintf(" dns:///%s.internal:9000", parent); {
		case key == "address":
			text.WriteString(address + "\n")
		case parent == "upstreams" && key != "fleet": // with the keys of fleet
			text.WriteString(" {address: \"dns:///" + key + ".internal:9000\"}\n")
		case schema.Properties != nil:
			text.WriteString("\n" + example(t, schema, key, indent+"  "))
		default:
			text.WriteString(value(t, schema, indent) + "\n")
			for line := range strings.Lines(strings.TrimPrefix(entries[key], "\n")) {
				text.WriteString(indent + "#  " + line)
			}
		}
	}
	return text.String()
}

// description returns what the comment of a key states: its choices, and instead of the reason for
// a restart only that it needs one.
func description(key *writable.Schema) string {
	text, _, restart := strings.Cut(key.Description, " A change needs a restart: ")
	if len(key.Enum) > 0 {
		text += " One of " + strings.Trim(fmt.Sprint(key.Enum), "[]") + "."
	}
	if restart && key.Properties == nil {
		text += " (restart)"
	}
	return text
}

// comment returns a text as lines of comments, wrapped at 100 columns.
func comment(text, indent string) string {
	lines, width := new(strings.Builder), 0
	for word := range strings.FieldsSeq(text) {
		if width == 0 || width+1+len(word) > 100 {
			if width > 0 {
				lines.WriteByte('\n')
			}
			lines.WriteString(indent + "#")
			width = len(indent) + 1
		}
		lines.WriteString(" " + word)
		width += 1 + len(word)
	}
	return lines.String() + "\n"
}

// value returns the default of a key as it follows the key in YAML.
func value(t *testing.T, key *writable.Schema, indent string) string {
	t.Helper()
	scalar := func(value any) string {
		text, err := yaml.Marshal(value)
		testkit.Must(t, err)
		return strings.TrimSpace(string(text))
	}
	switch byDefault := key.Default.(type) {
	case float64:
		return " " + scalar(int(byDefault))
	case []any:
		text := new(strings.Builder)
		for _, item := range byDefault {
			if _, ok := item.(map[string]any); ok {
				fmt.Fprintf(text, "\n%s  - %s", indent, flow(item, key.Items))
			} else {
				fmt.Fprintf(text, "\n%s  - %s", indent, scalar(item))
			}
		}
		return text.String()
	case nil:
		if empty, ok := map[string]string{"array": " []", "object": " {}", "integer": " 0"}[key.Type]; ok {
			return empty
		}
		return ` ""`
	default:
		return " " + scalar(byDefault)
	}
}
