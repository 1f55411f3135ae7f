//go:build !linux

package testkit

import "syscall"

// endsWithParent returns nil: on other systems the programs outlive a killed test.
func endsWithParent() *syscall.SysProcAttr { return nil }
