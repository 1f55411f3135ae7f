//go:build !linux

package chaostest

import "syscall"

// Elsewhere the kernel does not promise it: a test that is killed leaves its programs to whoever killed it.
func endsWithParent() *syscall.SysProcAttr { return nil }
