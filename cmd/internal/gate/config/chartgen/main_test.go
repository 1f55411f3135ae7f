package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../../../../../"

// The files of the chart are current: writing them again changes nothing.
func TestChartIsCurrent(t *testing.T) {
	chart := t.TempDir()
	if err := os.Mkdir(filepath.Join(chart, filepath.Dir(restartFile)), 0o700); err != nil {
		t.Fatal(err)
	}
	current := map[string]string{}
	for _, name := range []string{schemaFile, restartFile} {
		content, err := os.ReadFile(filepath.Join(root, chartDir, name))
		if err != nil {
			t.Fatal(err)
		}
		current[name] = string(content)
		if err := os.WriteFile(filepath.Join(chart, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(chart); err != nil {
		t.Fatal(err)
	}
	for name, want := range current {
		if got, err := os.ReadFile(filepath.Join(chart, name)); err != nil || string(got) != want {
			t.Errorf("%s is not current, run 'go run ./cmd/internal/gate/config/chartgen', which 'make generate' does too: %v", name, err)
		}
	}
}

func TestSchemaWithoutTheDefinitionIsRefused(t *testing.T) {
	if _, err := withConfig([]byte(`{"definitions": {"texts": {}}}`)); err == nil {
		t.Error("it was accepted")
	}
}
