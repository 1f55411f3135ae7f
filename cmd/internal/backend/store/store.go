package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/shares"
)

// FileName is the name of the database file within the data directory.
const FileName = "ops.sqlite"

// busyTimeout is how long SQLite itself waits for the transaction of another process, in
// milliseconds. It is short because this wait cannot be cancelled; [Store.Write] repeats it until
// its context ends.
const busyTimeout = "50"

// A Store is one SQLite file. Its methods are safe for concurrent use, and several processes may
// open the same file.
type Store struct {
	dir      string
	writer   pool // one connection: SQLite has one writer at a time, and callers wait for it until their contexts end
	readers  pool
	reads    *shares.Queue // those that ReadFor runs at once
	identity pool          // for tokens alone, so that no other query delays them
}

// A pool has connections, and the statements that are prepared on them.
type pool struct {
	*sql.DB
	prepared *query.Queries
}

func (s *Store) pools() []*pool { return []*pool{&s.identity, &s.readers, &s.writer} }

// identityConnections is sufficient because their queries take less than a millisecond.
const identityConnections = 2

// Open opens the store in a directory and updates its schema. It creates the directory and the
// database if they do not exist. Only the owner has access to the files and to a new directory.
func Open(ctx context.Context, dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(dir, FileName))
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := protect(path); err != nil {
		return nil, err
	}
	s := &Store{dir: filepath.Dir(path)}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(s.withFile(err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) (err error) {
	if s.writer.DB, err = openPool(path, 1, url.Values{"_journal_mode": {"WAL"}, "_txlock": {"immediate"}}); err != nil {
		return err
	}
	if err := migrate(ctx, s.writer.DB); err != nil {
		return err
	}
	s.reads = shares.NewQueue(int64(max(2, runtime.GOMAXPROCS(0))))
	// Few readers keep all processors busy; more would only use memory.
	readers := max(4, runtime.GOMAXPROCS(0))
	if s.readers.DB, err = openPool(path, readers, url.Values{"mode": {"ro"}}); err != nil {
		return err
	}
	if s.identity.DB, err = openPool(path, identityConnections, url.Values{"mode": {"ro"}}); err != nil {
		return err
	}
	for _, p := range s.pools() {
		p.prepared, err = retryBusy(ctx, func() (*query.Queries, error) { return query.Prepare(ctx, p.DB) })
		if err != nil {
			return fmt.Errorf("prepare the statements: %w", err)
		}
	}
	return nil
}

func openPool(path string, connections int, parameters url.Values) (*sql.DB, error) {
	parameters.Set("_busy_timeout", busyTimeout)
	parameters.Set("_foreign_keys", "on")
	parameters.Set("_synchronous", "FULL")
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: parameters.Encode()}
	connector, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", FileName, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Dir returns the directory of the store, as an absolute path.
func (s *Store) Dir() string { return s.dir }

// Close closes the database, after the transactions in progress.
func (s *Store) Close() error {
	var errs []error
	for _, p := range s.pools() {
		if p.prepared != nil {
			errs = append(errs, p.prepared.Close())
		}
		if p.DB != nil {
			errs = append(errs, p.DB.Close())
		}
	}
	return errors.Join(errs...)
}

// Read runs fn in a read transaction: all queries of fn use one snapshot. It returns an error of fn
// unchanged, but for one of SQLite about its file: that is a *[FileError].
func (s *Store) Read(ctx context.Context, fn func(*query.Queries) error) error {
	return s.withFile(s.readers.read(ctx, fn))
}

// ReadFor is Read for a team. As many of these reads run at once as there are processors, at least
// two, and a team alone has half of them. Its further reads wait, and those of other teams do not
// wait for them.
func (s *Store) ReadFor(ctx context.Context, team string, fn func(*query.Queries) error) error {
	if err := s.reads.Take(ctx, team, 1); err != nil {
		return err
	}
	defer s.reads.Release(team, 1)
	return s.Read(ctx, fn)
}

// ReadTokens is Read on connections that only ReadTokens uses. It is for the identity service:
// reads of other data do not delay it.
func (s *Store) ReadTokens(ctx context.Context, fn func(*query.Queries) error) error {
	return s.withFile(s.identity.read(ctx, fn))
}

func (p pool) read(ctx context.Context, fn func(*query.Queries) error) error {
	tx, err := p.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return fn(p.prepared.WithTx(tx))
}

// Write runs fn in a write transaction, commits it if fn returns nil and rolls it back otherwise.
// One write transaction runs at a time, over all processes; others wait until their contexts end.
// Write returns an error of fn unchanged, but for one of SQLite about its file: that is a
// *[FileError].
func (s *Store) Write(ctx context.Context, fn func(*query.Queries) error) error {
	return s.transact(ctx, func(tx *sql.Tx) error { return fn(s.writer.prepared.WithTx(tx)) })
}

// transact is Write with the transaction itself.
func (s *Store) transact(ctx context.Context, fn func(*sql.Tx) error) (err error) {
	defer func() { err = s.withFile(err) }()
	tx, err := retryBusy(ctx, func() (*sql.Tx, error) { return s.writer.BeginTx(ctx, nil) })
	if err != nil {
		return fmt.Errorf("begin to write: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit; before it, fn's error is returned
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// retryBusy calls do again while another process has locked the file, because that process writes,
// or closes the last connection to it.
func retryBusy[T any](ctx context.Context, do func() (T, error)) (T, error) {
	for {
		done, err := do()
		switch {
		case err == nil:
			return done, nil
		case ctx.Err() != nil:
			return done, ctx.Err()
		case !isBusy(err):
			return done, err
		}
	}
}

// primaryCode masks the primary code of SQLite's extended ones.
const primaryCode = 0xff

// isBusy reports whether another process had locked the file.
func isBusy(err error) bool {
	const sqliteBusy = 5
	failure, ok := errors.AsType[*sqlite.Error](err)
	return ok && failure.Code()&primaryCode == sqliteBusy
}
