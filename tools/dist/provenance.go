package main

import (
	"debug/buildinfo"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Types in the provenance.
const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	buildType      = "urn:x-opsgate:make-dist:v1"
	builderID      = "urn:x-opsgate:builder:unspecified"
)

// statement is in-toto's Statement v1 with SLSA's provenance v1. It does not contain the time or the place of the build, so it is
// reproducible.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string     `json:"buildType"`
	ExternalParameters   parameters `json:"externalParameters"`
	ResolvedDependencies []resource `json:"resolvedDependencies"`
}

type parameters struct {
	Version   string   `json:"version"`
	Revision  string   `json:"revision"`
	Date      string   `json:"date"`
	Platforms []string `json:"platforms"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// resource is in-toto's ResourceDescriptor.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// commit matches a revision without modifications.
var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// provenance returns the statement for the named files of the release. program is the path of one of the built programs.
func (r release) provenance(names []string, program string) ([]byte, error) {
	s := statement{
		Type: statementType, PredicateType: provenanceType,
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType: buildType,
				ExternalParameters: parameters{
					Version: r.version, Revision: r.revision, Date: r.date.Format(time.RFC3339),
				},
			},
			RunDetails: runDetails{Builder: builder{ID: r.builder}},
		},
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		sum, err := sumOf(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	definition := &s.Predicate.BuildDefinition
	for _, p := range r.platforms {
		definition.ExternalParameters.Platforms = append(definition.ExternalParameters.Platforms, p.os+"/"+p.arch)
	}
	var err error
	if definition.ResolvedDependencies, err = r.dependencies(program); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// dependencies returns the inputs of the build: the commit, go.sum, and the Go version.
func (r release) dependencies(program string) ([]resource, error) {
	var list []resource
	if commit.MatchString(r.revision) {
		list = append(list, resource{Name: "source", Digest: map[string]string{"gitCommit": r.revision}})
	}
	modules, err := sumOf(filepath.Join(r.source, "go.sum"))
	if err != nil {
		return nil, err
	}
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	return append(list,
		resource{Name: "go.sum", Digest: map[string]string{"sha256": modules}},
		resource{Name: "go", URI: "pkg:generic/go@" + strings.TrimPrefix(built.GoVersion, "go")},
	), nil
}
