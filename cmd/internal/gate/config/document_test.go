package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	writable "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

var update = flag.Bool("update", false, "write the example, the table in docs/operate/configuration.md and the files of the chart")

const (
	exampleFile   = "../../../../deploy/opsgate.yaml"
	documentation = "../../../../docs/operate/configuration.md"
	chart         = "../../../../deploy/helm/opsgate/"
)

func TestTheSchemaAcceptsValidFiles(t *testing.T) {
	schema := compileSchema(t)
	files, err := filepath.Glob("testdata/*.good.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, exampleFile) {
		var document map[string]any
		readYAML(t, file, &document)
		if file == "testdata/shared-address.good.yaml" {
			delete(document, "http") // keys without a value, which only the loader accepts
		}
		if err := schema.Validate(asJSON(t, document)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestTheSchemaRefusesInvalidValues(t *testing.T) {
	schema := compileSchema(t)
	for _, name := range []string{
		"unknown-keys", "wrong-types", "out-of-bounds", "choices", "secret-in-file", "not-a-mapping", "class-name", "override-id",
		"override-key", "override-bounds", "override-owner", "upstream-calls",
	} {
		var document any
		readYAML(t, "testdata/"+name+".bad.yaml", &document)
		if err := schema.Validate(asJSON(t, document)); err == nil {
			t.Errorf("%s.bad.yaml: the schema accepts it", name)
		}
	}
}

// A copied example that has expired would have no effect.
func TestExamplesDoNotExpireSoon(t *testing.T) {
	expires, seen := regexp.MustCompile(`expires: (\d{4})-`), 0
	for _, root := range []string{"../../../../docs", "../../../../deploy"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".yaml") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range expires.FindAllStringSubmatch(string(content), -1) {
				if seen++; match[1] < "2099" {
					t.Errorf("%s has an example that ends in %s", path, match[1])
				}
			}
			return err
		})
		testkit.Must(t, err)
	}
	if seen == 0 {
		t.Error("there is no example")
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	names := make(map[string]bool)
	for _, key := range config.Keys() {
		if key.Doc == "" || !strings.ContainsAny(key.Doc[len(key.Doc)-1:], ".?") {
			t.Errorf("%s: %q is not a sentence", key.Name, key.Doc)
		}
		if names[key.Variable] {
			t.Errorf("two keys have the variable %s", key.Variable)
		}
		names[key.Variable] = true
	}
	describedEverywhere(t, "", orderedSchema(t))
}

// describedEverywhere checks the properties of a schema at any depth.
func describedEverywhere(t *testing.T, path string, schema *writable.Schema) {
	t.Helper()
	if schema == nil {
		return
	}
	for name, property := range schema.Properties.FromOldest() {
		if property.Description == "" {
			t.Errorf("the schema does not describe %s.%s", path, name)
		}
		describedEverywhere(t, path+"."+name, property)
	}
	describedEverywhere(t, path+"[]", schema.Items)
	describedEverywhere(t, path+"[]", schema.AdditionalProperties)
}

// The table of keys is made from the structs.
func TestTableOfKeysIsCurrent(t *testing.T) {
	const begin, end = "<!-- keys -->\n", "<!-- end of keys -->\n"
	content, err := os.ReadFile(documentation)
	testkit.Must(t, err)
	before, rest, begun := strings.Cut(string(content), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", documentation)
	}
	mustBeCurrent(t, documentation, before+begin+keyTable(t)+end+after)
}

// mustBeCurrent checks the content of a file that `make generate` writes, with -update.
func mustBeCurrent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	testkit.Must(t, err)
	switch {
	case want == string(got):
	case *update:
		testkit.Must(t, os.WriteFile(path, []byte(want), 0o600))
	default:
		t.Errorf("%s differs from the code: run `make generate`\n%s", path, cmp.Diff(want, string(got)))
	}
}

// The chart has the schema of its value `config`, which ends the schema of the values, and the keys
// whose change replaces the pods.
func TestChartIsCurrent(t *testing.T) {
	const definition = "\n    \"config\": "
	values, err := os.ReadFile(chart + "values.schema.json")
	testkit.Must(t, err)
	at := bytes.LastIndex(values, []byte(definition))
	if at < 0 {
		t.Fatal("the schema of the values has no definition of config")
	}
	schema := strings.ReplaceAll(chartSchema(t), "\n", "\n    ")
	mustBeCurrent(t, chart+"values.schema.json", string(values[:at])+definition+schema+"\n  }\n}\n")

	var restart []string
	for _, key := range config.Keys() {
		if key.Restart != "" {
			restart = append(restart, "- "+key.Name+"\n")
		}
	}
	slices.Sort(restart)
	const header = "# Code generated by make generate. DO NOT EDIT. A change of these keys replaces the pods.\n"
	mustBeCurrent(t, chart+"files/restart-keys.yaml", header+strings.Join(restart, ""))
}

// chartSchema returns the schema of the configuration without the keys that the chart sets from
// other values.
func chartSchema(t *testing.T) string {
	t.Helper()
	schema := orderedSchema(t)
	schema.Version = "" // that of the file around it
	for _, key := range []string{"listen", "shutdown", "admin.listen", "admin.token", "admin.metrics_token", "admin.tls"} {
		mapping, name := schema.Properties, key
		if parent, child, nested := strings.Cut(key, "."); nested {
			mapping, name = mapping.Value(parent).Properties, child
		}
		if _, there := mapping.Delete(name); !there {
			t.Errorf("%s is not a key", key)
		}
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	testkit.Must(t, err)
	return string(text)
}

func keyTable(t *testing.T) string {
	t.Helper()
	schema := orderedSchema(t)
	table := new(strings.Builder)
	table.WriteString("| key and default | meaning and bounds |\n|---|---|\n")
	for _, key := range config.Keys() {
		service, ofService, _ := strings.Cut(strings.TrimPrefix(key.Name, "upstreams."), ".")
		name := key.Name
		switch {
		case !strings.HasPrefix(name, "upstreams."):
		case service == "fleet":
			name = "upstreams.SERVICE." + ofService
		default:
			continue // the same keys
		}
		if value := defaultOf(property(schema, key.Name)); value != "" {
			name += ": " + value
		}
		mark, bounds := "", ""
		if key.Restart != "" {
			mark = `\*`
		}
		if key.Min != "" {
			bounds = " " + key.Min + " to " + key.Max + "."
		}
		fmt.Fprintf(table, "| `%s`%s | %s%s |\n", name, mark, key.Doc, bounds)
	}
	return table.String()
}

// orderedSchema returns the JSON Schema, whose properties have the order of the structs.
func orderedSchema(t *testing.T) *writable.Schema {
	t.Helper()
	text, err := config.Schema()
	testkit.Must(t, err)
	schema := new(writable.Schema)
	testkit.Must(t, json.Unmarshal(text, schema))
	return schema
}

// property returns the schema of a key.
func property(schema *writable.Schema, key string) *writable.Schema {
	for name := range strings.SplitSeq(key, ".") {
		schema = schema.Properties.Value(name)
	}
	return schema
}

// defaultOf returns the default in the schema of a key as YAML in one line, or nothing.
func defaultOf(key *writable.Schema) string {
	switch value := key.Default.(type) {
	case nil:
		return ""
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = flow(item, key.Items)
		}
		return "[" + strings.Join(items, ", ") + "]"
	default:
		return flow(value, key)
	}
}

// flow writes a value as YAML in one line.
func flow(value any, schema *writable.Schema) string {
	mapping, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var parts []string
	for name := range schema.Properties.KeysFromOldest() {
		if value, ok := mapping[name]; ok && value != false { // shadow: false is the default
			parts = append(parts, fmt.Sprintf("%s: %v", name, value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := config.Schema()
	testkit.Must(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testkit.Must(t, err)
	compiler := jsonschema.NewCompiler()
	testkit.Must(t, compiler.AddResource("opsgate.json", document))
	schema, err := compiler.Compile("opsgate.json")
	testkit.Must(t, err)
	return schema
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(file, err)
	}
}

// asJSON converts a decoded YAML value to the types of decoded JSON.
func asJSON(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	testkit.Must(t, err)
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testkit.Must(t, err)
	return decoded
}
