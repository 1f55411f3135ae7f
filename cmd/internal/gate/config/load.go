package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"opsgate/internal/configfile"
	"opsgate/internal/filereader"
)

const (
	// DefaultPath is the path of the file unless a flag or PathVariable sets it.
	DefaultPath = "/etc/opsgate/opsgate.yaml"
	// PathVariable is the variable with the path of the file. A flag overrides it.
	PathVariable = "OPSGATE_CONFIG"

	// NoFileText is the warning for a missing file.
	NoFileText = "there is no configuration file: neither --config nor " + PathVariable + " names one, and " +
		DefaultPath + " does not exist"

	variablePrefix = "OPSGATE_"
)

// A Setting is the value of a key from a variable or a flag.
type Setting struct {
	Key   string // "admin.listen"
	Value string // as in the file; a list may also have commas between its items
	From  string // its name in problems: "--admin-listen"

	node *yaml.Node // instead of Value, if it is not nil
}

// Options are the sources of a configuration.
type Options struct {
	// Path of the file. "" means the path in OPSGATE_CONFIG, else DefaultPath if that file exists,
	// else no file.
	Path string
	// NoFile means no file if Path is "".
	NoFile bool
	// Environment is as os.Environ returns it.
	Environment []string
	// Defaults override the values of [Default].
	Defaults []Setting
	// Flags override Defaults, the file and the variables.
	Flags []Setting
	// Running has the effective values of a running gateway. Values from its variables and flags
	// override everything else. Files that these values name are not read: they may be on another
	// machine.
	Running []Value
	// Under is a key, for example "admin". Only problems of this key, of keys under it and of the
	// whole file are returned; "" for all problems.
	Under string
	// MemoryLimit of the gateway in bytes; 0 for none.
	MemoryLimit int64
	// OpenFiles is the limit of open files of the gateway; 0 for unknown.
	OpenFiles int64
	// Reader reads the files. It is nil for a command, which reads each file once, so that its
	// configuration file may be a pipe.
	Reader *filereader.Reader
	// Now is the clock for expiries; nil for time.Now.
	Now func() time.Time
}

// Load loads and validates a configuration. If it is invalid, the error is a [Problems] with all
// problems and warnings.
func Load(o Options) (Loaded, error) {
	loaded := Loaded{
		Config: Default(), Path: o.Path, MemoryLimit: o.MemoryLimit, OpenFiles: o.OpenFiles,
		Reader: cmp.Or(o.Reader, new(filereader.Reader)),
	}
	d := &decoder{environment: environment(o.Environment), origins: make(map[string]origin), files: loaded.Reader}
	settings, warnings := fromVariables(d.environment, Keys())
	content, err := o.readFile(&loaded, d.environment)
	if err != nil {
		return Loaded{}, err
	}
	d.settings(&loaded.Config, o.Defaults)
	if loaded.Path != "" {
		d.source, d.inFile = loaded.Path, true
		if !d.file(&loaded.Config, content) {
			return Loaded{}, d.problems.With(warnings) // further problems would only be consequences
		}
		d.inFile = false
	}
	d.settings(&loaded.Config, settings)
	d.settings(&loaded.Config, o.Flags)
	running, err := settingsOf(o.Running, variableOrFlag)
	if err != nil {
		return Loaded{}, fmt.Errorf("read the configuration of the gateway: %w", err)
	}
	d.settings(&loaded.Config, running)

	loaded.Warnings = warnings
	loaded.RateLimit.nameLimits()
	loaded.origins = d.origins
	v := &validator{loaded: &loaded, refused: d.problems, skipCertificates: o.Under != "", running: running}
	d.problems = append(d.problems, v.validate()...).under(o.Under)
	if len(d.problems) > 0 {
		if loaded.Path == "" && !o.NoFile {
			loaded.Warnings = append(loaded.Warnings, Problem{Text: NoFileText})
		}
		return Loaded{}, d.problems.With(loaded.Warnings)
	}
	if o.Under == "" { // else other keys may have problems
		loaded.warn(o.Now)
	}
	return loaded, nil
}

// readFile reads the configuration file and sets l.Path. Both stay empty if there is no file.
func (o Options) readFile(l *Loaded, environment map[string]string) ([]byte, error) {
	if o.Path == "" && o.NoFile {
		return nil, nil
	}
	which := "the configuration"
	if named := environment[PathVariable]; o.Path == "" && named != "" {
		l.Path = named
		which += " that " + PathVariable + " names"
	}
	read := l.Reader.Read
	if o.Reader == nil {
		read = l.Reader.ReadAny
	}
	path := cmp.Or(l.Path, DefaultPath)
	content, err := read(path)
	switch {
	case err == nil:
		l.Path = path
	case l.Path == "" && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	default:
		return nil, fmt.Errorf("read %s: %w", which, err)
	}
	return content, nil
}

// file applies a YAML document to the configuration. It returns false if the document has no keys
// or was not read to its end.
func (d *decoder) file(c *Config, content []byte) bool {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	switch err := documents.Decode(&document); {
	case errors.Is(err, io.EOF):
		return true // only comments
	case err != nil:
		d.problems = append(d.problems, syntaxProblem(d.source, content, err))
		return false
	}
	root := document.Content[0]
	d.value(reflect.ValueOf(c).Elem(), "", root)
	var second yaml.Node
	switch err := documents.Decode(&second); {
	case err == nil:
		d.refuse(&second, "", "the file has a second document")
	case !errors.Is(err, io.EOF):
		d.problems = append(d.problems, syntaxProblem(d.source, content, err))
	}
	return (root.Kind == yaml.MappingNode || isNull(root)) && d.values < maxValues
}

// badStart is the YAML library's error for a tab in the indentation, and for the three characters
// that a plain value cannot begin with.
const badStart = "found character that cannot start any token"

var (
	syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	// grammarError matches errors whose line the YAML library counts from zero, and omits if it is
	// zero.
	grammarError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or )`)
	unknownAlias = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// lineOf returns the line of an error without a line number: the line of an alias without an
// anchor, or of the first invalid character, else line 1, which the YAML library omits.
func lineOf(content []byte, err error) int {
	at := 0
	switch alias := unknownAlias.FindStringSubmatch(err.Error()); {
	case alias != nil:
		at = bytes.Index(content, []byte("*"+alias[1]))
	case strings.Contains(err.Error(), "control characters") || strings.Contains(err.Error(), "UTF-8"):
		at = bytes.IndexFunc(content, func(c rune) bool {
			return c == utf8.RuneError || unicode.IsControl(c) && !strings.ContainsRune("\t\r\n\u0085", c)
		})
	}
	return 1 + bytes.Count(content[:max(at, 0)], []byte("\n"))
}

// syntaxProblem converts an error of the YAML library. The line is where the invalid construct
// begins, which may be before the mistake.
func syntaxProblem(file string, content []byte, err error) Problem {
	at, text := origin{name: file}, configfile.YAMLErrorText(err)
	if match := syntaxError.FindStringSubmatch(text); match != nil {
		at.line, _ = strconv.Atoi(match[1])
		text = match[2]
	}
	switch {
	case at.line == 0:
		at.line = lineOf(content, err)
	case grammarError.MatchString(text):
		at.line++
	}
	if text == badStart {
		text = "a tab where YAML has spaces, or a value that begins with @, ` or % and is not quoted"
	}
	return problem(at, "", "is not YAML: %s", text)
}

// environment returns the variables in the result of os.Environ by name.
func environment(list []string) map[string]string {
	variables := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	return variables
}

// kubernetesVariable matches the variables that Kubernetes sets for a Service whose name begins
// with opsgate.
var kubernetesVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?$`)

// fromVariables returns the settings of OPSGATE_* variables. Empty variables are ignored. A
// variable of an unknown key is only a warning, because other software can set variables of a
// container.
func fromVariables(environment map[string]string, keys []Key) (settings []Setting, warnings Problems) {
	known := make(map[string]string)
	for _, key := range keys {
		known[key.Variable] = key.Name
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !strings.HasPrefix(name, variablePrefix) || environment[name] == "" || name == PathVariable {
			continue
		}
		switch key, ok := known[name]; {
		case ok:
			settings = append(settings, Setting{Key: key, Value: environment[name], From: name})
		case !kubernetesVariable.MatchString(name):
			warnings = append(warnings, problem(origin{name: name}, "", "sets no key of the configuration"))
		}
	}
	return settings, warnings
}

// settings applies settings to the configuration.
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
		n, err := s.node, error(nil)
		if n == nil {
			n, err = settingNode(v.Type(), s.Value)
		}
		if err != nil {
			d.refuse(nil, s.Key, "is not YAML: %v", err)
			continue
		}
		d.value(v, s.Key, n)
	}
}

// settingNode returns the YAML node of a setting's value. A dictionary, and a list that begins with
// a bracket, is parsed as YAML. Any other list has commas between its items. All other values are
// plain text.
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
