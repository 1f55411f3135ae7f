package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// addAuditedTeam adds a team and its first audit entry in one transaction.
func addAuditedTeam(ctx context.Context, s *store.Store, name string) error {
	return s.Write(ctx, func(q *query.Queries) error {
		err := q.InsertTeam(ctx, query.InsertTeamParams{ID: name, Name: name, Plan: "ai"})
		return errors.Join(err, q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{ID: name, TeamID: name, ActionType: strings.Repeat("x", 500)}))
	})
}

// A backup under writes is one moment of the database; restored, it verifies and takes writes.
func TestBackupUnderWritesCanBeRestored(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	for i := range 300 {
		testkit.Must(t, addAuditedTeam(ctx, s, fmt.Sprint("before ", i)))
	}
	writes, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				writes <- nil
				return
			default:
			}
			if err := addAuditedTeam(ctx, s, fmt.Sprint("meanwhile ", i)); err != nil {
				writes <- err
				return
			}
		}
	}()
	dir := t.TempDir()
	copied := filepath.Join(dir, store.FileName)
	testkit.Must(t, s.Backup(ctx, copied))
	close(stop)
	testkit.Must(t, <-writes)
	info, err := os.Stat(copied)
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := s.Backup(ctx, copied); err == nil || err.Error() != copied+" exists, and a backup replaces no file: name another one" {
		t.Errorf("a backup to a file that exists: %v", err)
	}
	restored := open(t, dir)
	faults, err := restored.Verify(ctx, time.Now())
	testkit.Must(t, err)
	testkit.Must(t, addAuditedTeam(ctx, restored, "after"))
	installations := map[string]bool{}
	for _, from := range []*store.Store{s, restored} {
		testkit.Must(t, from.Read(ctx, func(q *query.Queries) error {
			id, err := q.GetInstallation(ctx)
			installations[id] = true
			return err
		}))
	}
	teams, entries := storetest.Count(t, storetest.Open(t, dir, ""), "teams"), storetest.Count(t, storetest.Open(t, dir, ""), "audit_entries")
	if len(faults) > 0 || teams != entries || teams < 301 || len(installations) != 2 {
		t.Errorf("faults %q, %d teams, %d entries, installations %v", faults, teams, entries, installations)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.partial*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A backup that was interrupted leaves no file with the name of the backup, and the next one says
// what to remove.
func TestInterruptedBackupIsNoBackup(t *testing.T) {
	s, path := open(t, t.TempDir()), filepath.Join(t.TempDir(), "copy")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(canceled, path); err == nil {
		t.Error("no error")
	}
	testkit.Must(t, os.WriteFile(path+".partial", nil, 0o600)) // as after a kill
	if err := s.Backup(t.Context(), path); err == nil || !strings.Contains(err.Error(), "remove "+path+".partial") {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the backup exists: %v", err)
	}
}

func TestErrorOfAFileSystemWithoutHardLinksNamesTheNextStep(t *testing.T) {
	for err, want := range map[error]bool{syscall.EPERM: true, syscall.ENOTSUP: true, syscall.EEXIST: false, syscall.ENOSPC: false} {
		got := store.LinkError(&os.LinkError{Op: "link", Err: err})
		if !errors.Is(got, err) || strings.Contains(got.Error(), "no hard links: write the backup to another") != want {
			t.Error(got)
		}
	}
}

// Errors of the file name it and say what to do, also when the store is opened.
func TestErrorsOfTheFileSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, store.FileName)
	testkit.Must(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600))
	_, err := store.Open(t.Context(), dir)
	if file, ok := errors.AsType[*store.FileError](err); !ok || !file.Damaged || !strings.Contains(err.Error(), path+": stop all servers") {
		t.Errorf("another file: %v", err)
	}
}
