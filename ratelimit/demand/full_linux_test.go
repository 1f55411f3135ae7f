package demand_test

import (
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/demand"
)

// RLIMIT_FSIZE stands for a full disk: the last write succeeds in part.
func TestFullDiskLeavesNoIncompleteLine(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p})
	m.recordAll(t, 0, 500)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = uint64(size(t, p)) + 1000
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	restore := sync.OnceFunc(func() { testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) })
	defer restore()
	m.recordAll(t, 500, 600)
	m.recordAll(t, 600, 700)
	if m.dropped(t) != 200 || !strings.Contains(m.log.String(), "file too large") {
		t.Errorf("%v dropped, the log has %s", m.dropped(t), m.log)
	}
	if events, _ := read(t, p); len(events) != 500 {
		t.Errorf("%d events while the disk is full", len(events))
	}
	restore()
	m.recordAll(t, 700, 800)
	if events, opened := read(t, p); len(events) != 600 || opened.Summary().Dropped != 200 {
		t.Errorf("%d events and %+v afterwards", len(events), opened.Summary())
	}
}
