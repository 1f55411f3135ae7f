package wiring

import (
	"crypto/sha256"
	"io"
	"os"
)

// A watcher detects changed files.
type watcher struct {
	latest fingerprint // of the last call of changed
	// loaded is that of the files when the configuration was last read. It is zero at the start, so that polling begins with a reload: a file
	// may have changed after the first read.
	loaded fingerprint
}

// changed reports whether the files differ from those that were loaded and are the same as at the last call. Files that change between two
// calls are still being written.
func (w *watcher) changed(files []string) bool {
	before := w.latest
	w.latest = fingerprintOf(files)
	return w.latest == before && w.latest != w.loaded
}

// maxHashedBytes is the maximum number of bytes of a file that are hashed. It is the maximum size of a configuration file.
const maxHashedBytes = 1 << 20

// A fingerprint is a hash of the contents of files, including which of them cannot be read.
type fingerprint [sha256.Size]byte

// fingerprintOf returns the fingerprint of files. It follows symbolic links, and reads regular files only: reading a pipe could block, and
// would consume its content.
func fingerprintOf(paths []string) (f fingerprint) {
	sum := sha256.New()
	for _, path := range paths {
		content := contentSum(path)
		_, _ = io.WriteString(sum, path+"\x00") // a hash never fails
		_, _ = sum.Write(content[:])
	}
	sum.Sum(f[:0])
	return f
}

// contentSum returns the hash of a file, or zero if it cannot be read.
func contentSum(path string) (content fingerprint) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fingerprint{}
	}
	file, err := os.Open(path)
	if err != nil {
		return fingerprint{}
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, maxHashedBytes)); err != nil {
		return fingerprint{}
	}
	sum.Sum(content[:0])
	return content
}
