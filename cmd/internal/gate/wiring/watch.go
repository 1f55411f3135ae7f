package wiring

import (
	"crypto/sha256"
	"io"

	"opsgate/internal/filereader"
)

// A watcher detects changed files.
type watcher struct {
	files  *filereader.Reader
	hashes map[string]fileHash // by path
	latest fingerprint         // of the last call of changed
	// loaded is that of the files when the configuration was last read. It is zero at the start, so
	// that polling begins with a reload: a file may have changed after the first read.
	loaded fingerprint
}

// A fileHash is the hash of a file. It is reused while the identity of the file, which has the time
// of its last change, stays the same, but only once two readings had the same hash: a file that is
// written twice within the resolution of that time keeps its identity.
type fileHash struct {
	identity string
	hash     fingerprint
	twice    bool // two readings had this hash
}

// changed reports whether the files differ from those that were loaded and are the same as at the
// last call. Files that change between two calls are still being written: pending is true.
func (w *watcher) changed(paths []string) (changed, pending bool) {
	before := w.latest
	w.latest = w.fingerprint(paths)
	return w.latest == before && w.latest != w.loaded, w.latest != before
}

// A fingerprint is a hash of the contents of files, including which of them cannot be read.
type fingerprint [sha256.Size]byte

// fingerprint returns the fingerprint of files.
func (w *watcher) fingerprint(paths []string) (f fingerprint) {
	sum, hashes := sha256.New(), make(map[string]fileHash, len(paths))
	for _, path := range paths {
		h, readable := w.hash(path)
		if readable {
			hashes[path] = h
		}
		_, _ = io.WriteString(sum, path+"\x00") // a hash never fails
		_, _ = sum.Write(h.hash[:])
	}
	w.hashes = hashes
	sum.Sum(f[:0])
	return f
}

// hash returns the hash of a file, and whether it could be read.
func (w *watcher) hash(path string) (fileHash, bool) {
	identity, err := w.files.Identity(path)
	if err != nil {
		return fileHash{}, false
	}
	before := w.hashes[path]
	if before.twice && before.identity == identity {
		return before, true
	}
	content, err := w.files.Read(path)
	if err != nil {
		return fileHash{}, false
	}
	h := fileHash{identity: identity, hash: sha256.Sum256(content)}
	h.twice = before.identity == identity && before.hash == h.hash
	return h, true
}

// forget makes the next fingerprint hash every file.
func (w *watcher) forget() { w.hashes = nil }
