package edge

import (
	"crypto/sha256"
	"io"
	"os"
)

// maxWatched bounds what is read of one file; a configuration is at most that large.
const maxWatched = 1 << 20

// A fingerprint is that of files: what they hold, or that they cannot be read.
type fingerprint [sha256.Size]byte

// fingerprintOf looks at the files through symbolic links, as they are when it is called. What is not a file, such as a pipe, is not
// read: that could take for ever, and take away what is in it.
func fingerprintOf(paths []string) (f fingerprint) {
	sum := sha256.New()
	for _, path := range paths {
		content := contentSum(path)
		_, _ = io.WriteString(sum, path+"\x00") // a hash takes everything
		_, _ = sum.Write(content[:])
	}
	sum.Sum(f[:0])
	return f
}

// contentSum returns the hash of what a file holds, or zero where it cannot be read.
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
	if _, err := io.Copy(sum, io.LimitReader(file, maxWatched)); err != nil {
		return fingerprint{}
	}
	sum.Sum(content[:0])
	return content
}
