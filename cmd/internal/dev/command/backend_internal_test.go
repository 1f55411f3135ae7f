package command

import (
	"testing"

	"opsgate/internal/testkit"
)

// Moving the data would read the backend, which this one has not.
func TestStillDemoDataDoesNotMove(t *testing.T) {
	testkit.Must(t, new(backend).move(t.Context(), options{flags: flags{Still: true}}))
}
