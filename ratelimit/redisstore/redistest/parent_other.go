//go:build !linux

package redistest

import "syscall"

// endsWithParent returns nil: only Linux can kill children with their parent, so a killed test leaves its servers running.
func endsWithParent() *syscall.SysProcAttr { return nil }
