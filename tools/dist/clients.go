package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// makeClients writes the client packages, whose version is that of the description, and returns their names.
func (r release) makeClients() ([]string, error) {
	description, err := os.ReadFile(filepath.Join(r.source, "gateway", "openapi", "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	version := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(description)
	if version == nil {
		return nil, errors.New("the description has no version")
	}
	var names []string
	for _, p := range []struct {
		dir   string
		write func(version string, files []entry) (string, error)
	}{
		{"python/opsgate_client", r.makeWheel},
		{"typescript/opsgate-client", r.makeNPM},
		{"go/client", r.makeModule},
	} {
		files, err := folder(filepath.Join(r.source, "tools", "clients", filepath.FromSlash(p.dir)))
		if err != nil {
			return nil, err
		}
		license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
		if err != nil {
			return nil, err
		}
		name, err := p.write(string(version[1]), append(files, entry{path: "LICENSE", content: license}))
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// makeWheel writes the Python package: https://packaging.python.org/en/latest/specifications/binary-distribution-format/.
func (r release) makeWheel(version string, files []entry) (name string, err error) {
	info := "opsgate_client-" + version + ".dist-info/"
	const wheel = "Wheel-Version: 1.0\nGenerator: opsgate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	list := []entry{{path: info + "WHEEL", content: []byte(wheel)}}
	for _, file := range files {
		switch {
		case file.path == "README.md":
			metadata := "Metadata-Version: 2.4\nName: opsgate-client\nVersion: " + version + "\nSummary: Client of the opsgate API\n" +
				"License-File: LICENSE\nRequires-Python: >=3.11\nRequires-Dist: httpx>=0.27,<1\nDescription-Content-Type: text/markdown\n\n"
			list = append(list, entry{path: info + "METADATA", content: append([]byte(metadata), file.content...)})
		case file.path == "LICENSE":
			list = append(list, entry{path: info + "licenses/LICENSE", content: file.content})
		case !strings.HasSuffix(file.path, ".pyc"): // of a run in the working copy
			list = append(list, entry{path: "opsgate_client/" + file.path, content: file.content})
		}
	}
	var record strings.Builder
	for _, file := range list {
		sum := sha256.Sum256(file.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", file.path, base64.RawURLEncoding.EncodeToString(sum[:]), len(file.content))
	}
	list = append(list, entry{path: info + "RECORD", content: []byte(record.String() + info + "RECORD,,\n")})
	packed, err := zipped(list, r.date)
	if err != nil {
		return "", err
	}
	name = "opsgate_client-" + version + "-py3-none-any.whl"
	return name, os.WriteFile(filepath.Join(r.out, name), packed, 0o644)
}

// makeNPM writes the npm package.
func (r release) makeNPM(version string, files []entry) (string, error) {
	for i, file := range files {
		if file.path == "package.json" {
			files[i].content = bytes.Replace(file.content, []byte(`"version": "0.0.0"`), []byte(`"version": "`+version+`"`), 1)
		}
	}
	name := "opsgate-client_" + version + "_npm.tgz"
	return name, r.archive(name, "package", files)
}

// makeModule writes the Go module.
func (r release) makeModule(version string, files []entry) (string, error) {
	name := "opsgate-client_" + version + "_go.tar.gz"
	return name, r.archive(name, "opsgate-client", append(files, entry{path: "go.mod", content: []byte("module opsgate/client\n\ngo 1.24\n")}))
}

// zipped returns a zip archive whose files have a date.
func zipped(files []entry, date time.Time) ([]byte, error) {
	out := new(bytes.Buffer)
	archive := zip.NewWriter(out)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.path, Method: zip.Deflate, Modified: date}
		header.SetMode(0o644)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(file.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
