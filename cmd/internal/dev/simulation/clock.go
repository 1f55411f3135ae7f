package simulation

import (
	"context"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

// Clock returns a clock that starts at a time and runs speed times as fast as the computer's. It follows changes of the computer's clock.
func Clock(start time.Time, speed float64) func() time.Time {
	begun := time.Now().Round(0) // without the monotonic clock, which stops while a computer sleeps
	return func() time.Time {
		return start.Add(time.Duration(speed * float64(time.Now().Round(0).Sub(begun))))
	}
}

// Start returns the time from which data can go on: the present, or the latest time in the data if that is later, because the data ran
// ahead of the present.
func Start(ctx context.Context, s *store.Store) (start time.Time, err error) {
	start = time.Now()
	return start, s.Read(ctx, func(q *query.Queries) error {
		latest, err := q.LatestTimeAnyTeam(ctx)
		if err != nil {
			return fmt.Errorf("look for the latest time in the data: %w", err)
		}
		if at := time.Unix(0, latest); at.After(start) {
			start = at
		}
		return nil
	})
}
