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

// migrate updates the schema. Several processes may start in one new directory at once: each step
// is one transaction, so it fails in all processes but one, and these retry. It waits while another
// process writes.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	const maxFailures = 20
	for failures := 0; ; {
		_, err := provider.Up(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("update the schema: %w", ctx.Err())
		case isBusy(err):
		case failures == maxFailures:
			return fmt.Errorf("update the schema: %w", err)
		default:
			failures++
		}
	}
}
