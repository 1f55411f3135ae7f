package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	committed := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "false"}, {Key: "vcs.time", Value: "2026-01-31T12:00:00Z"},
	}
	changed := []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc123"}}
	for _, test := range []struct {
		name   string
		build  debug.BuildInfo
		linked linked
		want   Info
	}{
		{"no recorded values", debug.BuildInfo{GoVersion: "go1.26"}, linked{}, Info{"dev", "unknown", "unknown", "go1.26"}},
		{"a working tree", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: changed}, linked{}, Info{"dev", "abc123-modified", "unknown", ""}},
		{"a commit", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: committed}, linked{}, Info{"v0.0.0-2026", "abc123", "2026-01-31T12:00:00Z", ""}},
		{"a release", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: committed},
			linked{"1.2.3", "def456", "2026-02-01T00:00:00Z"}, Info{"1.2.3", "def456", "2026-02-01T00:00:00Z", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(&test.build, test.linked); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestReadReturnsTheGoVersion(t *testing.T) {
	if got := Read().GoVersion; got != runtime.Version() {
		t.Errorf("got %q, want %q", got, runtime.Version())
	}
}

func TestStringHasALineForEachValue(t *testing.T) {
	want := "1.2.3\nrevision: abc123\ndate: 2026-01-31T12:00:00Z\ngo: go1.26\n"
	if got := (Info{"1.2.3", "abc123", "2026-01-31T12:00:00Z", "go1.26"}).String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
