package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by whoever releases: go build -ldflags "-X opsgate/cmd/internal/buildinfo.version=1.2.3".
var version string

// Info describes a build.
type Info struct {
	Version   string // the release, the module's version, or "dev"
	Revision  string // the commit, with "-modified" where the tree differed from it; "unknown" without -buildvcs
	GoVersion string
}

// Read returns what is known of the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describe(build, version)
}

// describe makes an Info of what the Go toolchain recorded and what the linker was told, which goes first.
func describe(build *debug.BuildInfo, linked string) Info {
	recorded := build.Main.Version
	if recorded == "(devel)" {
		recorded = ""
	}
	info := Info{Version: cmp.Or(linked, recorded, "dev"), Revision: "unknown", GoVersion: build.GoVersion}
	modified := false
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified {
		info.Revision += "-modified"
	}
	return info
}

// String returns the lines that a version command prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s\nrevision: %s\ngo: %s\n", i.Version, i.Revision, i.GoVersion)
}
