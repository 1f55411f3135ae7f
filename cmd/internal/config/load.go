package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	// DefaultPath is where the file is looked for when nobody says where it is.
	DefaultPath = "/etc/opsgate/opsgate.yaml"
	// PathVariable says where the file is, unless a flag does.
	PathVariable = "OPSGATE_CONFIG"

	// NoFile says that there is no file, and who might name one.
	NoFile = "there is no configuration file: neither --config nor " + PathVariable + " names one, and " + DefaultPath + " is not there"

	variablePrefix = "OPSGATE_"
	maxFile        = 1 << 20
)

// A Setting gives one value, as a variable or a flag does.
type Setting struct {
	Key   string // "admin.listen"
	Value string // as in the file; a list also with commas between its items
	From  string // what problems call it: "--admin-listen"
}

// Options say where a configuration comes from.
type Options struct {
	// Path of the file. "" takes that of OPSGATE_CONFIG, else DefaultPath if there is such a file, else no file.
	Path string
	// NoFile reads no file where Path is "".
	NoFile bool
	// Environment is as os.Environ returns it.
	Environment []string
	// Defaults go before the file and replace the gateway's own.
	Defaults []Setting
	// Overrides go over everything else.
	Overrides []Setting
	// Under is the key of the part that is asked for, such as "admin"; "" for all. What is wrong elsewhere is then no error.
	Under string
	// Now tells what has expired; nil is time.Now.
	Now func() time.Time
}

// Load reads a configuration. Its error is a [Problems] where the configuration is wrong, with everything that is and what else is to
// be said of it.
func Load(o Options) (Loaded, error) {
	d := &decoder{environment: environment(o.Environment), origins: make(map[string]origin)}
	loaded := Loaded{Config: Default(), Path: o.Path}
	settings, warnings := fromVariables(d.environment, Keys())
	which := "the configuration"
	if loaded.Path == "" && !o.NoFile {
		if loaded.Path = findFile(d.environment); loaded.Path != DefaultPath {
			which += " that " + PathVariable + " names"
		}
	}
	d.settings(&loaded.Config, o.Defaults)
	if loaded.Path != "" {
		content, err := readFile(loaded.Path)
		if err != nil {
			return Loaded{}, fmt.Errorf("read %s: %w", which, err)
		}
		d.source, d.inFile = loaded.Path, true
		if !d.file(&loaded.Config, content) {
			return Loaded{}, d.problems.beside(warnings) // what else is wrong would only follow from that
		}
		d.inFile = false
	}
	d.settings(&loaded.Config, settings)
	d.settings(&loaded.Config, o.Overrides)

	loaded.Warnings = slices.Concat(d.warnings, warnings)

	loaded.RateLimit.nameLimits()
	loaded.origins = d.origins
	v := &validator{loaded: &loaded, refused: d.problems}
	d.problems = append(d.problems, v.validate()...).under(o.Under)
	if len(d.problems) > 0 {
		if loaded.Path == "" && !o.NoFile {
			loaded.Warnings = append(loaded.Warnings, Problem{Text: NoFile})
		}
		return Loaded{}, d.problems.beside(loaded.Warnings)
	}
	loaded.warn(o.Now)
	return loaded, nil
}

// findFile returns the path of the file that nobody named on the command line, or "".
func findFile(environment map[string]string) string {
	if path := environment[PathVariable]; path != "" {
		return path
	}
	if _, err := os.Stat(DefaultPath); err != nil {
		return ""
	}
	return DefaultPath
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than %s", path, Bytes(maxFile))
	}
	return content, err
}

// file lays a YAML document over the configuration. It returns false where the file is not a document with keys, or not all of it
// was read.
func (d *decoder) file(c *Config, content []byte) bool {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	switch err := documents.Decode(&document); {
	case errors.Is(err, io.EOF):
		return true // nothing but comments
	case err != nil:
		d.problems = append(d.problems, syntaxProblem(d.source, err))
		return false
	}
	root := document.Content[0]
	d.value(reflect.ValueOf(c).Elem(), "", root)
	var second yaml.Node
	switch err := documents.Decode(&second); {
	case err == nil:
		d.refuse(&second, "", "the file holds a second document")
	case !errors.Is(err, io.EOF):
		d.problems = append(d.problems, syntaxProblem(d.source, err))
	}
	return (root.Kind == yaml.MappingNode || isNull(root)) && d.values < maxValues
}

// settings lays settings over the configuration.
func (d *decoder) settings(c *Config, settings []Setting) {
	keys := Keys()
	for _, s := range settings {
		d.source = s.From
		i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == s.Key })
		if i < 0 {
			d.refuse(nil, s.Key, "is not a key")
			continue
		}
		v := reflect.ValueOf(c).Elem().FieldByIndex(keys[i].index)
		n, err := settingNode(v.Type(), s.Value)
		if err != nil {
			d.refuse(nil, s.Key, "is not YAML: %v", err)
			continue
		}
		d.value(v, s.Key, n)
	}
}

// settingNode makes a node of a setting's value. Text is taken as it stands; what has free names is YAML, and so is a list that
// begins with a bracket.
func settingNode(t reflect.Type, text string) (*yaml.Node, error) {
	switch {
	case isDictionary(t), isList(t) && strings.HasPrefix(strings.TrimSpace(text), "["):
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			return nil, err
		}
		if len(document.Content) == 0 {
			return nil, errors.New("it is empty")
		}
		return document.Content[0], nil
	case !isList(t):
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}, nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
		}
	}
	return list, nil
}
