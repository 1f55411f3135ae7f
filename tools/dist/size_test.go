package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// leftOut are modules that the tags of flagsFile keep out of every program, and that which only the tag manual brings.
var leftOut = []string{"github.com/ugorji/go/codec", "github.com/cpuguy83/go-md2man/v2"}

// The bounds are the measured sizes on linux/amd64 plus 10 %, in bytes. docs/develop/dependencies.md explains what takes the space.
func TestProgramsStaySmall(t *testing.T) {
	dir := t.TempDir()
	r := release{source: root, version: "1.2.3", revision: revision}
	testkit.Must(t, r.build(context.WithoutCancel(t.Context()), platform{"linux", "amd64"}, dir))
	bounds := map[string]int64{"opsgate": 24_900_000, "opsbackend": 28_400_000, "opsdev": 47_300_000, "opsctl": 11_000_000}
	for _, name := range programs() {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		testkit.Must(t, err)
		t.Logf("%s: %.1f MB", name, float64(info.Size())/1e6)
		if info.Size() > bounds[name] {
			t.Errorf("%s has %d bytes, the bound is %d", name, info.Size(), bounds[name])
		}
		checkLeftOut(t, path)
	}
}

// checkLeftOut checks that a program has none of the modules that are left out, and none of the pages that grpcnotrace leaves out.
func checkLeftOut(t *testing.T, path string) {
	t.Helper()
	built, err := buildinfo.ReadFile(path)
	testkit.Must(t, err)
	for _, m := range built.Deps {
		if slices.Contains(leftOut, m.Path) {
			t.Errorf("%s contains %s", filepath.Base(path), m.Path)
		}
	}
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	if pages := "golang.org/x/net/trace."; bytes.Contains(content, []byte(pages)) {
		t.Errorf("%s contains functions of %s", filepath.Base(path), strings.TrimSuffix(pages, "."))
	}
}
