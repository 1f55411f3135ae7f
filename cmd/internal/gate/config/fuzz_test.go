package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzDecode checks that the decoder does not panic, that every problem has an origin, and that documents that the YAML library refuses
// are refused.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c := Default()
		d := &decoder{source: "fuzz.yaml", inFile: true, origins: make(map[string]origin)}
		d.file(&c, content)
		for _, p := range d.problems {
			if p.Text == "" || p.Where == "" {
				t.Errorf("a problem without text or origin: %+v", p)
			}
		}
		c.RateLimit.nameLimits()
		v := &validator{loaded: &Loaded{Config: c, Path: "fuzz.yaml", origins: d.origins}, refused: d.problems}
		if problems := v.validate(); len(d.problems)+len(problems) > 0 {
			return
		}
		var document any
		if err := yaml.Unmarshal(content, &document); err != nil && !strings.Contains(err.Error(), "excessive aliasing") {
			t.Errorf("accepted, but the YAML library refuses it: %v", err)
		}
	})
}
