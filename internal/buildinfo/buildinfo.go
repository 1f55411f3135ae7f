package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Values of a release, set by -ldflags "-X opsgate/internal/buildinfo.version=1.2.3" and so on.
// They replace those that -buildvcs records.
var version, revision, date string // by -X

// Info describes a build.
type Info struct {
	Version   string // the release, the module's version, or "dev"
	Revision  string // the commit, with "-modified" if the tree differed from it; "unknown" without -buildvcs
	Date      string // of the commit, in RFC 3339, so that builds are reproducible; "unknown" without -buildvcs
	GoVersion string
}

// Read returns the description of the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describe(build, linked{version, revision, date})
}

// linked is the values that the linker set.
type linked struct{ version, revision, date string }

// describe returns the values of the linker, or else those that the Go toolchain recorded.
func describe(build *debug.BuildInfo, release linked) Info {
	recorded := build.Main.Version
	if recorded == "(devel)" {
		recorded = ""
	}
	info := Info{Version: cmp.Or(release.version, recorded, "dev"), GoVersion: build.GoVersion}
	modified := false
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.time":
			info.Date = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified {
		info.Revision += "-modified"
	}
	info.Revision, info.Date = cmp.Or(release.revision, info.Revision, "unknown"),
		cmp.Or(release.date, info.Date, "unknown")
	return info
}

// String returns the lines that a version command prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s\nrevision: %s\ndate: %s\ngo: %s\n", i.Version, i.Revision, i.Date, i.GoVersion)
}
