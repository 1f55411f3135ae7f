package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date. Several processes may start on the same new directory at once: each step is one
// transaction, so whoever comes second fails on it, looks again and finds it done. While another process writes, it waits.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	const patience = 20
	for failures := 0; ; {
		_, err := provider.Up(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("bring the schema up to date: %w", ctx.Err())
		case isBusy(err):
		case failures == patience:
			return fmt.Errorf("bring the schema up to date: %w", err)
		default:
			failures++
		}
	}
}
