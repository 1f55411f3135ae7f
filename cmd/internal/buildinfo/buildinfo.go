package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// What whoever releases says of the build, by -ldflags "-X opsgate/cmd/internal/buildinfo.version=1.2.3" and so on. A build from a
// checkout, with -buildvcs, knows its revision and date by itself.
var version, revision, date string //nolint:gochecknoglobals // the linker writes to nothing else

// Info describes a build.
type Info struct {
	Version   string // the release, the module's version, or "dev"
	Revision  string // the commit, with "-modified" where the tree differed from it; "unknown" without -buildvcs
	Date      string // of the commit, in RFC 3339, so that who builds it again gets the same; "unknown" likewise
	GoVersion string
}

// Read returns what is known of the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describe(build, linked{version, revision, date})
}

// linked is what the linker was told.
type linked struct{ version, revision, date string }

// describe makes an Info of what the Go toolchain recorded and what the linker was told, which goes first.
func describe(build *debug.BuildInfo, told linked) Info {
	recorded := build.Main.Version
	if recorded == "(devel)" {
		recorded = ""
	}
	info := Info{Version: cmp.Or(told.version, recorded, "dev"), GoVersion: build.GoVersion}
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
	info.Revision, info.Date = cmp.Or(told.revision, info.Revision, "unknown"), cmp.Or(told.date, info.Date, "unknown")
	return info
}

// String returns the lines that a version command prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s\nrevision: %s\ndate: %s\ngo: %s\n", i.Version, i.Revision, i.Date, i.GoVersion)
}

// Day returns the date without its time, or "".
func (i Info) Day() string {
	day, _, dated := strings.Cut(i.Date, "T")
	if !dated {
		return ""
	}
	return day
}
