package filereader

import (
	"crypto/sha256"
	"io"
)

// A Watcher detects changed files. Its methods must not be called at the same time.
type Watcher struct {
	Reader *Reader
	// Loaded is the Fingerprint of the files when their user last read them. While it is zero, the
	// files count as changed.
	Loaded Fingerprint

	hashes map[string]fileHash // by path
	latest Fingerprint         // of the last call of Changed
}

// A fileHash is the hash of a file. It is reused while the identity of the file, which has the time
// of its last change, stays the same, but only once two readings had the same hash: a file that is
// written twice within the resolution of that time keeps its identity.
type fileHash struct {
	identity string
	hash     Fingerprint
	twice    bool // two readings had this hash
}

// Changed reports whether the files differ from those that were loaded and are the same as at the
// last call. Files that change between two calls are still being written: pending is true.
func (w *Watcher) Changed(paths []string) (changed, pending bool) {
	before := w.latest
	w.latest = w.Fingerprint(paths)
	return w.latest == before && w.latest != w.Loaded, w.latest != before
}

// A Fingerprint is a hash of the contents of files, including which of them cannot be read.
type Fingerprint [sha256.Size]byte

// Fingerprint returns the fingerprint of files.
func (w *Watcher) Fingerprint(paths []string) (f Fingerprint) {
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
func (w *Watcher) hash(path string) (fileHash, bool) {
	identity, err := w.Reader.Identity(path)
	if err != nil {
		return fileHash{}, false
	}
	before := w.hashes[path]
	if before.twice && before.identity == identity {
		return before, true
	}
	content, err := w.Reader.Read(path)
	if err != nil {
		return fileHash{}, false
	}
	h := fileHash{identity: identity, hash: sha256.Sum256(content)}
	h.twice = before.identity == identity && before.hash == h.hash
	return h, true
}

// Forget makes the next Fingerprint hash every file.
func (w *Watcher) Forget() { w.hashes = nil }
