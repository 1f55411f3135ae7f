package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// A sample has keys with former names.
type sample struct {
	Wait  Duration     `yaml:"wait" was:"pause" min:"1s" max:"1m" doc:"How long."`
	Store sampleNested `yaml:"store" was:"backend" doc:"Where."`
}

type sampleNested struct {
	Size int `yaml:"size" was:"entries" min:"1" max:"9" doc:"How many."`
}

func decodeSample(t *testing.T, document string) (sample, *decoder) {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(document), &root); err != nil {
		t.Fatal(err)
	}
	var s sample
	d := &decoder{source: "opsgate.yaml", inFile: true, origins: make(map[string]origin)}
	d.value(reflect.ValueOf(&s).Elem(), "", root.Content[0])
	return s, d
}

func TestAFormerNameIsAcceptedWithAWarning(t *testing.T) {
	for _, document := range []string{
		"pause: 5s\nbackend:\n  entries: 7\n",
		"wait: 5s\nbackend: {size: 7}\n",
		"pause: 5s\nstore: {entries: 7}\n",
	} {
		got, d := decodeSample(t, document)
		if want := (sample{Wait: seconds(5), Store: sampleNested{Size: 7}}); got != want || len(d.problems) > 0 {
			t.Errorf("%s: %+v, %v", document, got, d.problems)
		}
		if len(d.warnings) == 0 {
			t.Errorf("%s: no warning", document)
		}
	}
	_, d := decodeSample(t, "wait: 5s\nbackend:\n  entries: 7\n")
	want := Problems{
		{Where: "opsgate.yaml:2", Line: 2, Key: "backend", Text: "is now called store; the old name is accepted until the next major version"},
		{Where: "opsgate.yaml:3", Line: 3, Key: "store.entries", Text: "is now called size; the old name is accepted until the next major version"},
	}
	if diff := cmp.Diff(want, d.warnings); diff != "" {
		t.Error(diff)
	}
}

func TestAKeyIsNotSetByBothNames(t *testing.T) {
	_, d := decodeSample(t, "wait: 5s\npause: 6s\n")
	want := Problems{{Where: "opsgate.yaml:2", Line: 2, Key: "pause", Text: "is also set as wait: pause is the former name of wait"}}
	if diff := cmp.Diff(want, d.problems); diff != "" {
		t.Error(diff)
	}
}

func TestVariablesOfFormerNamesAreAccepted(t *testing.T) {
	keys := keysOf(reflect.TypeFor[sample](), Key{})
	for name, want := range map[string]string{
		"OPSGATE_PAUSE": "wait", "OPSGATE_STORE_ENTRIES": "store.size", "OPSGATE_BACKEND_SIZE": "store.size", "OPSGATE_BACKEND_ENTRIES": "store.size",
	} {
		settings, warnings := fromVariables(map[string]string{name: "5"}, keys)
		if !slices.Equal(settings, []Setting{{Key: want, Value: "5", From: name}}) || len(warnings) != 1 {
			t.Errorf("%s: %v, %v", name, settings, warnings)
		}
	}
	// The new name overrides the old one in any order.
	settings, _ := fromVariables(map[string]string{"OPSGATE_WAIT": "2s", "OPSGATE_PAUSE": "1s", "OPSGATE_STORE_SIZE": "1"}, keys)
	if len(settings) != 3 || settings[0].From != "OPSGATE_PAUSE" {
		t.Error(settings)
	}
}

func TestTheSchemaMarksFormerNames(t *testing.T) {
	text, err := json.Marshal(schemaOf(sample{}, reflect.ValueOf(sample{})))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Deprecated  bool
			Description string
			Pattern     string
			Properties  map[string]struct{ Deprecated bool }
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	p := schema.Properties
	if !p["pause"].Deprecated || p["wait"].Deprecated || p["pause"].Pattern == "" || p["pause"].Description != "Now called wait." {
		t.Errorf("%s", text)
	}
	if !p["backend"].Deprecated || !p["backend"].Properties["entries"].Deprecated || p["store"].Properties["size"].Deprecated {
		t.Errorf("%s", text)
	}
}

func TestFormerNamesAreNotReused(t *testing.T) {
	var check func(reflect.Type)
	check = func(t2 reflect.Type) {
		names := map[string]bool{}
		for _, f := range fields(t2) {
			for _, name := range []string{f.name, f.was} {
				if name != "" && names[name] {
					t.Errorf("%s has two keys with the current or former name %s", t2, name)
				}
				names[name] = true
			}
			if isMapping(f.Type) {
				check(f.Type)
			}
		}
	}
	check(reflect.TypeFor[Config]())
}
