package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// makePackages writes the packages that deploy/packages describes for a platform, and returns their names. It writes the files of the
// archive, of which they are made, below dir. The units run the program of the package.
func (r release) makePackages(p platform, dir string, entries []entry) (names []string, err error) {
	if p.os != "linux" {
		return nil, nil
	}
	for _, e := range entries {
		if unit, isUnit := strings.CutPrefix(e.path, "lib/systemd/system/"); isUnit {
			e = entry{path: "usr/lib/systemd/system/" + unit, content: bytes.ReplaceAll(e.content, []byte("/usr/local/bin"), []byte("/usr/bin"))}
		}
		file := filepath.Join(dir, filepath.FromSlash(e.path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, e.content, 0o600)); err != nil {
			return nil, err
		}
	}
	variables := map[string]string{"ARCH": p.arch, "VERSION": chartVersion(r.version), "FILES": dir, "SOURCE": r.source}
	for _, program := range []string{"opsctl", "opsgate"} {
		description, err := os.ReadFile(filepath.Join(r.source, "deploy", "packages", program+".yaml"))
		if err != nil {
			return nil, err
		}
		for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
			value := func(name string) string { return variables[name] }
			config, err := nfpm.ParseWithEnvMapping(strings.NewReader(os.Expand(string(description), value)), value)
			if err != nil {
				return nil, fmt.Errorf("%s.yaml: %w", program, err)
			}
			config.MTime = r.date
			var content bytes.Buffer
			if err := packager.Package(&config.Info, &content); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", program, format, err)
			}
			name := fmt.Sprintf("%s_%s_%s_%s.%s", program, r.version, p.os, p.arch, format)
			if err := os.WriteFile(filepath.Join(r.out, name), content.Bytes(), 0o644); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	return names, nil
}
