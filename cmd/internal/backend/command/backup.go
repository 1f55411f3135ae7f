package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
)

func backupCommand(e Environment) *cobra.Command {
	return databaseCommand(e, &cobra.Command{
		Use: "backup FILE", Short: "Write a copy of the database to a new file, while servers use it",
		Long: `Write a copy of the database, as of one moment, to a new file, while servers use it.

To restore it, stop all servers on the directory, move ops.sqlite, ops.sqlite-wal and ops.sqlite-shm
away, copy FILE to ops.sqlite, and run verify.`,
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		if err := b.Store().Backup(ctx, arguments[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintln(e.Out, arguments[0])
		return err
	})
}
