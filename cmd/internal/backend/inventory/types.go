package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"opsgate/internal/configfile"
)

// A File is an inventory. Fields with the tag state are written when a row is created, and kept
// afterwards. Those with the tag bound do not count in the bounds of texts.
type File struct {
	Teams []Team `yaml:"teams" jsonschema:"required"`

	lines lines
}

// A Head identifies a row among those of its kind and parent: by id if there is one, else by name.
// A new row without an id gets one that follows from its names.
type Head struct {
	ID   string `yaml:"id,omitempty" jsonschema:"format=uuid" jsonschema_description:"Needed only to rename."`
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
}

func (h *Head) head() *Head { return h }

// A Team has all other rows.
type Team struct {
	Head `yaml:",inline"`

	Plan       string    `yaml:"plan" jsonschema:"required,enum=basic,enum=ai" jsonschema_description:"ai has the public API."`
	LimitClass string    `yaml:"limit_class,omitempty" bound:"-" jsonschema:"pattern=^[!-~]*$,maxLength=64" jsonschema_description:"Class of limits in the configuration of gateways, of tokens without one of their own."`
	CreatedAt  time.Time `yaml:"created_at,omitempty" state:"true"`
	Groups     []Group   `yaml:"groups,omitempty"`
	Servers    []Server  `yaml:"servers,omitempty"`
	Monitors   []Monitor `yaml:"monitors,omitempty"`
	Pages      []Page    `yaml:"pages,omitempty"`
}

// A Group of servers.
type Group struct {
	Head `yaml:",inline"`

	Color    string `yaml:"color" jsonschema:"required,pattern=^#[0-9a-fA-F]{6}$"`
	Position int    `yaml:"position,omitempty" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"By default that in the file."`
}

// A Server of a team.
type Server struct {
	Head `yaml:",inline"`

	Host       string      `yaml:"host" jsonschema:"required,minLength=1"`
	OS         string      `yaml:"os,omitempty"`
	Tags       []string    `yaml:"tags,omitempty"`
	Group      string      `yaml:"group,omitempty" bound:"-" jsonschema_description:"Name of a group of the team."`
	CreatedAt  time.Time   `yaml:"created_at,omitempty" state:"true"`
	LastSeenAt time.Time   `yaml:"last_seen_at,omitempty" state:"true"`
	Scheduled  []Scheduled `yaml:"scheduled,omitempty"`
}

// A Scheduled is a command that a server runs at the times of a cron expression.
type Scheduled struct {
	Head `yaml:",inline"`

	Command      string    `yaml:"command" jsonschema:"required,minLength=1"`
	Cron         string    `yaml:"cron" jsonschema:"required,minLength=1" jsonschema_description:"Five fields, in UTC."`
	Disabled     bool      `yaml:"disabled,omitempty"`
	LastRunAt    time.Time `yaml:"last_run_at,omitempty" state:"true"`
	LastExitCode int64     `yaml:"last_exit_code,omitempty" jsonschema:"minimum=-2147483648,maximum=2147483647" state:"true"`
	Failures     int64     `yaml:"consecutive_failures,omitempty" jsonschema:"minimum=0,maximum=2147483647" state:"true"`
}

// A Monitor checks a target.
type Monitor struct {
	Head `yaml:",inline"`

	Type           string    `yaml:"type" jsonschema:"required,pattern=^[a-z_]+$" jsonschema_description:"http, tcp, ping, dns, ssl, keyword."`
	Target         string    `yaml:"target" jsonschema:"required,minLength=1"`
	Interval       int64     `yaml:"interval_seconds" jsonschema:"required,minimum=1,maximum=86400"`
	Disabled       bool      `yaml:"disabled,omitempty"`
	OpensIncidents bool      `yaml:"opens_incidents,omitempty" jsonschema_description:"Whether an outage opens an incident."`
	Status         string    `yaml:"status,omitempty" bound:"-" jsonschema:"enum=up,enum=degraded,enum=down" state:"true"`
	LastCheckAt    time.Time `yaml:"last_check_at,omitempty" state:"true"`
	LastChangeAt   time.Time `yaml:"last_status_change_at,omitempty" state:"true"`
}

// A Page is a status page.
type Page struct {
	Head `yaml:",inline"`

	Hostname    string       `yaml:"hostname" jsonschema:"required,minLength=1" jsonschema_description:"Unique over all teams."`
	Slug        string       `yaml:"slug,omitempty" jsonschema_description:"Unique over all teams."`
	Visibility  string       `yaml:"visibility" jsonschema:"required,minLength=1" jsonschema_description:"public, password or another word."`
	Color       string       `yaml:"color" jsonschema:"required,pattern=^#[0-9a-fA-F]{6}$"`
	Description string       `yaml:"description,omitempty"`
	Suspended   bool         `yaml:"suspended,omitempty"`
	CreatedAt   time.Time    `yaml:"created_at,omitempty" state:"true"`
	Components  []Component  `yaml:"components,omitempty"`
	Subscribers []Subscriber `yaml:"subscribers,omitempty"`
}

// A Component of a page has the status of its monitor, or its own, which is operational by default.
type Component struct {
	Head `yaml:",inline"`

	Group    string `yaml:"group,omitempty"`
	Monitor  string `yaml:"monitor,omitempty" bound:"-" jsonschema_description:"Name of a monitor of the team."`
	Status   string `yaml:"status,omitempty" bound:"-" jsonschema:"enum=operational,enum=degraded,enum=outage,enum=maintenance"`
	Position int    `yaml:"position,omitempty" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"By default that in the file."`
}

// A Subscriber has an email address or a webhook. Secrets are not part of an inventory: a new
// webhook gets one.
type Subscriber struct {
	Email     string `yaml:"email,omitempty"`
	Webhook   string `yaml:"webhook,omitempty"`
	AllowHTTP bool   `yaml:"allow_http,omitempty" jsonschema_description:"Accepts a new webhook over http at any host. For demos."`
}

// eachRow calls visit for each row below a file or a row, before those below it, with its path and
// its index in its list.
func eachRow(path string, of reflect.Value, visit func(path string, index int, row reflect.Value)) {
	for field, list := range of.Fields() {
		if !isList(field.Type) {
			continue
		}
		for i := range list.Len() {
			at := fmt.Sprintf("%s/%s/%d", path, keyOf(field), i)
			visit(at, i, list.Index(i))
			eachRow(at, list.Index(i), visit)
		}
	}
}

// isList reports whether a field has a list of rows.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// keyOf returns the name of a field in the file.
func keyOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return name
}

// Parse returns the inventory of a YAML document that fits the schema.
func Parse(text []byte) (f File, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return f, errors.New(configfile.YAMLErrorText(err))
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return f, errors.New("the file must be one YAML document")
	}
	var values any
	if err := errors.Join(yaml.Unmarshal(text, &f.lines.document), yaml.Unmarshal(text, &values)); err != nil {
		return f, errors.New(configfile.YAMLErrorText(err))
	}
	return f, f.lines.add(validate(values))
}

// validate returns the differences of a file to the schema.
func validate(values any) error {
	text, err := json.Marshal(values) // which makes texts of times
	if err != nil {
		return fmt.Errorf("the file does not have the form of the schema: %w", err)
	}
	instance, unread := validator.UnmarshalJSON(bytes.NewReader(text))
	text, err = Schema()
	schema, unparsed := validator.UnmarshalJSON(bytes.NewReader(text))
	const name = "inventory:schema"
	compiler := validator.NewCompiler()
	added := compiler.AddResource(name, schema)
	compiled, invalid := compiler.Compile(name)
	if err := errors.Join(unread, err, unparsed, added, invalid); err != nil {
		return fmt.Errorf("compile the schema: %w", err)
	}
	return compiled.Validate(instance)
}

// Schema returns the JSON Schema of the file, for editors and pipelines. Apply checks references,
// bounds and addresses too.
func Schema() ([]byte, error) {
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, FieldNameTag: "yaml",
		RequiredFromJSONSchemaTags: true}
	schema := reflector.Reflect(File{})
	schema.Title = "Inventory of opsbackend"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(text, '\n'), nil
}
