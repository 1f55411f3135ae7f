package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func checkProvenance(t *testing.T, made map[string][]byte, name string) {
	t.Helper()
	var s statement
	testkit.Must(t, json.Unmarshal(made["opsgate_1.2.3.provenance.json"], &s))
	files := []string{"opsgate-chart_1.2.3.tgz", name + ".cdx.json", name + ".tar.gz"}
	if runtime.GOOS == "linux" {
		arch := "_1.2.3_linux_" + runtime.GOARCH
		files = append(files, "opsctl"+arch+".deb", "opsctl"+arch+".rpm", "opsgate"+arch+".deb", "opsgate"+arch+".rpm")
	}
	for file := range made {
		if strings.Contains(file, "client") {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	var subjects []resource
	for _, file := range files {
		sum := sha256.Sum256(made[file])
		subjects = append(subjects, resource{Name: file, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
	}
	if !reflect.DeepEqual(s.Subject, subjects) {
		t.Errorf("the subjects are %v, want %v", s.Subject, subjects)
	}
	definition := s.Predicate.BuildDefinition
	want := parameters{
		Version: "1.2.3", Revision: revision, Date: "2026-01-31T10:00:00Z", Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH},
	}
	if !reflect.DeepEqual(definition.ExternalParameters, want) {
		t.Errorf("the parameters are %+v", definition.ExternalParameters)
	}
	modules, err := os.ReadFile(filepath.Join(root, "go.sum"))
	testkit.Must(t, err)
	sum := sha256.Sum256(modules)
	dependencies := []resource{
		{Name: "source", Digest: map[string]string{"gitCommit": revision}},
		{Name: "go.sum", Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}},
	}
	dependencies = append(dependencies, resource{Name: "go", URI: "pkg:generic/go@" + releasedWith(t)})
	if got := definition.ResolvedDependencies; !reflect.DeepEqual(got, dependencies) {
		t.Errorf("it was built from %v, want %v", got, dependencies)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" ||
		!isURI(definition.BuildType) || !isURI(s.Predicate.RunDetails.Builder.ID) {
		t.Errorf("got %+v", s)
	}
}

// releasedWith returns the Go version that go.mod names for releases.
func releasedWith(t *testing.T) string {
	t.Helper()
	name, err := release{source: root}.toolchain()
	testkit.Must(t, err)
	return strings.TrimPrefix(name, "go")
}

func isURI(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != ""
}

func TestProvenanceOfModifiedSourcesHasNoCommit(t *testing.T) {
	program, err := os.Executable()
	testkit.Must(t, err)
	for text, dependencies := range map[string]int{revision: 3, revision + "-modified": 2, revision[:8]: 2} {
		got, err := release{source: root, revision: text}.dependencies(program)
		if err != nil || len(got) != dependencies {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}
