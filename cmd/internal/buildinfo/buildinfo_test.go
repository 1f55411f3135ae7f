package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	committed := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "false"}}
	changed := []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc123"}}
	for _, test := range []struct {
		name   string
		build  debug.BuildInfo
		linked string
		want   Info
	}{
		{"a build that nobody described", debug.BuildInfo{GoVersion: "go1.26"}, "", Info{"dev", "unknown", "go1.26"}},
		{"a working tree", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: changed}, "", Info{"dev", "abc123-modified", ""}},
		{"a commit", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: committed}, "", Info{"v0.0.0-2026", "abc123", ""}},
		{"a release", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: committed}, "1.2.3", Info{"1.2.3", "abc123", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(&test.build, test.linked); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestReadKnowsTheGoVersion(t *testing.T) {
	if got := Read().GoVersion; got != runtime.Version() {
		t.Errorf("got %q, want %q", got, runtime.Version())
	}
}

func TestStringIsForPeople(t *testing.T) {
	want := "1.2.3\nrevision: abc123\ngo: go1.26\n"
	if got := (Info{"1.2.3", "abc123", "go1.26"}).String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
