package main

import (
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// document is a bill of materials in CycloneDX 1.6. It has no serial number, which would differ in each build.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

// component is a program or a library.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// dependency lists the components of a component.
type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// bill returns the bill of materials of the programs in a folder, from their build information.
func (r release) bill(p platform, dir string) ([]byte, error) {
	application := component{Type: "application", Ref: "opsgate_" + p.os + "_" + p.arch, Name: "opsgate", Version: r.version}
	d := document{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: r.date.Format(time.RFC3339), Component: application},
	}
	libraries := map[string]component{}
	contents := dependency{Ref: application.Ref}
	for _, name := range programs() {
		path := filepath.Join(dir, name)
		built, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		sum, err := sumOf(path)
		if err != nil {
			return nil, err
		}
		d.Components = append(d.Components, component{
			Type: "application", Ref: "bin/" + name, Name: name, Version: r.version, Hashes: []hash{{"SHA-256", sum}},
		})
		contents.DependsOn = append(contents.DependsOn, "bin/"+name)
		linked := linkedModules(built)
		maps.Copy(libraries, linked)
		d.Dependencies = append(d.Dependencies, dependency{Ref: "bin/" + name, DependsOn: slices.Sorted(maps.Keys(linked))})
	}
	d.Dependencies = append(d.Dependencies, contents)
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		d.Components = append(d.Components, libraries[ref])
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// linkedModules returns the modules of a program and the standard library, by reference.
func linkedModules(built *debug.BuildInfo) map[string]component {
	modules := []*debug.Module{{Path: "std", Version: strings.TrimPrefix(built.GoVersion, "go")}}
	for _, m := range built.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, m)
	}
	list := make(map[string]component, len(modules))
	for _, m := range modules {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		list[purl] = component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	}
	return list
}
