package wiring

import (
	"crypto/sha256"
	"io"

	"opsgate/backendclient/filereader"
)

// A watcher detects changed files.
type watcher struct {
	files  *filereader.Reader
	latest fingerprint // of the last call of changed
	// loaded is that of the files when the configuration was last read. It is zero at the start, so that polling begins with a reload: a file
	// may have changed after the first read.
	loaded fingerprint
}

// changed reports whether the files differ from those that were loaded and are the same as at the last call. Files that change between two
// calls are still being written.
func (w *watcher) changed(paths []string) bool {
	before := w.latest
	w.latest = w.fingerprint(paths)
	return w.latest == before && w.latest != w.loaded
}

// A fingerprint is a hash of the contents of files, including which of them cannot be read.
type fingerprint [sha256.Size]byte

// fingerprint returns the fingerprint of files.
func (w *watcher) fingerprint(paths []string) (f fingerprint) {
	sum := sha256.New()
	for _, path := range paths {
		var hash fingerprint
		if content, err := w.files.Read(path); err == nil {
			hash = sha256.Sum256(content)
		}
		_, _ = io.WriteString(sum, path+"\x00") // a hash never fails
		_, _ = sum.Write(hash[:])
	}
	sum.Sum(f[:0])
	return f
}
