//go:build !unix

package demand

import "os"

// lock makes the file readable for its owner alone.
func lock(f *os.File) error { return f.Chmod(0o600) }
