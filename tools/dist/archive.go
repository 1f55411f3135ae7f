package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sumsName is the file of checksums, in the format of sha256sum.
const sumsName = "SHA256SUMS"

// entry is a file of an archive.
type entry struct {
	path    string // with slashes, relative to the archive's folder
	content []byte
	program bool
}

// archive writes a compressed archive with all entries in one folder.
func (r release) archive(name, dir string, entries []entry) (err error) {
	file, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file) // the header has no name and no time; the best level takes three times as long for 0.3 %
	tarball := tar.NewWriter(compressed)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	for _, e := range entries {
		mode := int64(0o644)
		if e.program {
			mode = 0o755
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: dir + "/" + e.path, Size: int64(len(e.content)), Mode: mode, ModTime: r.date, Format: tar.FormatUSTAR,
		}
		if err := tarball.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tarball.Write(e.content); err != nil {
			return err
		}
	}
	return errors.Join(tarball.Close(), compressed.Close())
}

// folder returns the files of a folder. It follows links, and skips hidden files except .helmignore.
func folder(dir string) ([]entry, error) {
	var list []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			linked, err := filepath.EvalSymlinks(path)
			if err != nil {
				return err
			}
			inner, err := folder(linked)
			for _, e := range inner {
				e.path = strings.TrimSuffix(relative+"/"+e.path, "/.")
				list = append(list, e)
			}
			return err
		case strings.HasPrefix(d.Name(), ".") && d.Name() != ".helmignore":
			return nil
		}
		content, err := os.ReadFile(path)
		list = append(list, entry{path: relative, content: content})
		return err
	})
	return list, err
}

// writeSums writes the checksums of files in a folder.
func writeSums(dir string, names []string) error {
	var sums strings.Builder
	slices.Sort(names)
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(sums.String()), 0o644)
}

// sumOf returns the SHA-256 of a file in hex.
func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
