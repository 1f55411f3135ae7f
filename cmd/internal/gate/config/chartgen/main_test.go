package main

import (
	"os"
	"path/filepath"
	"testing"

	"opsgate/backendclient/testkit"
)

const root = "../../../../../"

// The files of the chart are current: writing them again changes nothing.
func TestChartIsCurrent(t *testing.T) {
	chart := t.TempDir()
	testkit.Must(t, os.Mkdir(filepath.Join(chart, filepath.Dir(restartFile)), 0o700))
	current := map[string]string{}
	for _, name := range []string{schemaFile, restartFile} {
		content, err := os.ReadFile(filepath.Join(root, chartDir, name))
		testkit.Must(t, err)
		current[name] = string(content)
		testkit.Must(t, os.WriteFile(filepath.Join(chart, name), content, 0o600))
	}
	testkit.Must(t, write(chart))
	for name, want := range current {
		if got, err := os.ReadFile(filepath.Join(chart, name)); err != nil || string(got) != want {
			t.Errorf("%s differs from the output for the configuration (error %v): run `make generate`", name, err)
		}
	}
}

func TestSchemaWithoutTheDefinitionIsRefused(t *testing.T) {
	if _, err := withConfig([]byte(`{"definitions": {"texts": {}}}`)); err == nil {
		t.Error("it was accepted")
	}
}
