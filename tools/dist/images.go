package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// imageReference matches a reference to an image by the digest of its manifest.
var imageReference = regexp.MustCompile(`^(?:[\w.:/-]+/)?(opsgate|opsbackend)(?::[\w.-]+)?@sha256:[0-9a-f]{64}$`)

// useImages takes the references to the published images: none, or at least one to each of opsgate and opsbackend.
func (r *release) useImages(references []string) error {
	if len(references) == 0 {
		return nil
	}
	missing := []string{"opsgate", "opsbackend"}
	for _, reference := range references {
		parts := imageReference.FindStringSubmatch(reference)
		if parts == nil {
			return fmt.Errorf("image %q is not of the form registry.example/opsgate@sha256:DIGEST, or the same for opsbackend", reference)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == parts[1] })
	}
	if len(missing) > 0 {
		return fmt.Errorf("there is no image %s", strings.Join(missing, ", "))
	}
	r.images = slices.Compact(slices.Sorted(slices.Values(references)))
	return nil
}

// writeImages writes the references to the images, one on each line, and returns the name of the file. Without images it removes the file
// of an earlier release.
func (r release) writeImages() ([]string, error) {
	name := r.name() + ".images.txt"
	path := filepath.Join(r.out, name)
	if len(r.images) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		return nil, nil
	}
	return []string{name}, os.WriteFile(path, []byte(strings.Join(r.images, "\n")+"\n"), 0o644)
}
