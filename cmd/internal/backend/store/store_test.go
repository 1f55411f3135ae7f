package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	return s
}

// addTeam writes one row.
func addTeam(ctx context.Context, s *store.Store, id string) error {
	return s.Write(ctx, func(q *query.Queries) error {
		return q.InsertTeam(ctx, query.InsertTeamParams{ID: id, Name: id, Plan: "ai"})
	})
}

func teams(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	testkit.Must(t, s.Read(t.Context(), func(q *query.Queries) error {
		rows, err := q.ListTeams(t.Context())
		n = len(rows)
		return err
	}))
	return n
}

// All openers succeed and write to one database.
func TestConcurrentOpensOfANewDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet?&#%")
	const openers = 6
	var wg sync.WaitGroup
	for i := range openers {
		wg.Go(func() {
			s, err := store.Open(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(addTeam(t.Context(), s, string(rune('a'+i))), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := teams(t, open(t, dir)); got != openers {
		t.Errorf("%d teams", got)
	}
}

// Open waits while another process has locked the new file, until its context ends.
func TestOpenWaitsForALockedFile(t *testing.T) {
	dir := t.TempDir()
	held, err := storetest.Open(t, dir, "_txlock=immediate").Begin()
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := store.Open(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("opening ended with %v", err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), dir)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	testkit.Must(t, held.Rollback())
	testkit.Must(t, <-opened)
}

func TestReaderHasASnapshot(t *testing.T) {
	s := open(t, t.TempDir())
	testkit.Must(t, addTeam(t.Context(), s, "before"))
	testkit.Must(t, s.Read(t.Context(), func(q *query.Queries) error {
		before, err := q.ListTeams(t.Context())
		testkit.Must(t, err)
		testkit.Must(t, addTeam(t.Context(), s, "meanwhile")) // writers do not wait for readers
		after, err := q.ListTeams(t.Context())
		testkit.Must(t, err)
		if len(after) != len(before) {
			t.Errorf("%d teams, then %d", len(before), len(after))
		}
		return nil
	}))
	if got := teams(t, s); got != 2 {
		t.Errorf("%d teams", got)
	}
}

func TestReaderCannotWrite(t *testing.T) {
	s := open(t, t.TempDir())
	err := s.Read(t.Context(), func(q *query.Queries) error {
		return q.InsertTeam(t.Context(), query.InsertTeamParams{ID: "a", Name: "a", Plan: "ai"})
	})
	if err == nil || teams(t, s) != 0 {
		t.Errorf("a reader has written: %v", err)
	}
}

func TestFailedTransactionIsRolledBack(t *testing.T) {
	s := open(t, t.TempDir())
	wrong := errors.New("rolled back")
	err := s.Write(t.Context(), func(q *query.Queries) error {
		testkit.Must(t, q.InsertTeam(t.Context(), query.InsertTeamParams{ID: "a", Name: "a", Plan: "ai"}))
		return wrong
	})
	if !errors.Is(err, wrong) || teams(t, s) != 0 {
		t.Errorf("the transaction ended with %v and left %d teams", err, teams(t, s))
	}
}

// The transaction of another process has locked the file.
func TestWaitForTheWriterEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, dir), open(t, dir)
	testkit.Must(t, one.Write(t.Context(), func(*query.Queries) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := addTeam(ctx, two, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v", err)
		}
		return nil
	}))
	testkit.Must(t, addTeam(t.Context(), two, "free"))
}

// A row of one team cannot refer to a row of another.
func TestSchemaPreventsReferencesBetweenTeams(t *testing.T) {
	s := open(t, t.TempDir())
	testkit.Must(t, addTeam(t.Context(), s, "ours"))
	testkit.Must(t, addTeam(t.Context(), s, "theirs"))
	testkit.Must(t, s.Write(t.Context(), func(q *query.Queries) error {
		return q.InsertStatusPage(t.Context(), query.InsertStatusPageParams{ID: "page", TeamID: "theirs"})
	}))
	page := "page"
	err := s.Write(t.Context(), func(q *query.Queries) error {
		return q.InsertIncident(t.Context(), query.InsertIncidentParams{
			ID: "incident", TeamID: "ours", StatusPageID: &page, Status: "monitoring", Impact: "none",
		})
	})
	if err == nil {
		t.Error("an incident is on the page of another team")
	}
}

func TestOpenFailsOnInvalidDirectoryOrFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if _, err := store.Open(t.Context(), file); err == nil {
		t.Error("a file was opened as a directory")
	}
	garbage := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(garbage, store.FileName), []byte("this is not a database, and longer than its header"), 0o600))
	if _, err := store.Open(t.Context(), garbage); err == nil {
		t.Error("garbage was opened as a database")
	}
}

func TestSizeGrowsWithWhatIsWritten(t *testing.T) {
	s := open(t, t.TempDir())
	before, err := s.Size()
	testkit.Must(t, err)
	const written = 1 << 20
	testkit.Must(t, addTeam(t.Context(), s, strings.Repeat("n", written)))
	if after, err := s.Size(); err != nil || after < before+written {
		t.Errorf("%d bytes after %d: %v", after, before, err)
	}
}

// A team has more slow reads than there are connections. Those of another team do not wait for
// them.
func TestReadsOfATeamDoNotDelayThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		release := make(chan struct{})
		var slow sync.WaitGroup
		for range 64 {
			slow.Go(func() {
				_ = s.ReadFor(t.Context(), "a", func(*query.Queries) error {
					<-release
					return nil
				})
			})
		}
		synctest.Wait() // until each has a connection or waits
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.ReadFor(ctx, "b", func(*query.Queries) error { return nil }); err != nil {
			t.Error(err)
		}
		close(release)
		slow.Wait()
	})
}
