//go:build !unix

package demand

import "os"

// claim keeps others than its user from reading the file.
func claim(f *os.File) error { return f.Chmod(0o600) }
