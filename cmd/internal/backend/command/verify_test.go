package command_test

import (
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// change executes statements on the database of a directory, without checks of references.
func change(t *testing.T, dir, statements string) {
	t.Helper()
	_, err := storetest.Open(t, dir, "_foreign_keys=off").ExecContext(t.Context(), statements)
	testkit.Must(t, err)
}

func TestVerifyFindsFaults(t *testing.T) {
	dir := seeded(t)
	if out := succeed(t, "verify", "--data-dir", dir); out != "no faults\n" {
		t.Fatal(out)
	}
	hostname, _ := page(t, dir)
	subscriber := strings.TrimSpace(succeed(t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", "ops@customer.example"))
	succeed(t, "delivery", "retry", "--data-dir", dir, letters(t, dir, subscriber, 1, time.Now()))
	for _, c := range []struct{ fault, statements, repair string }{
		{"waits, but has no time", "UPDATE deliveries SET due_at = NULL", "UPDATE deliveries SET due_at = 1"},
		{"refers to a row of subscribers", "UPDATE deliveries SET subscriber_id = 'none'",
			"UPDATE deliveries SET subscriber_id = (SELECT max(id) FROM subscribers)"},
	} {
		change(t, dir, c.statements)
		if code, out, errs := run(t, "verify", "--data-dir", dir); code != 1 || !strings.Contains(out, c.fault) || !strings.Contains(errs, "1 faults in "+dir) {
			t.Errorf("%s: exit code %d\n%s%s", c.fault, code, out, errs)
		}
		change(t, dir, c.repair)
	}
	change(t, dir, "UPDATE audit_entries SET created_at = created_at + 1000 * 86400000000000 WHERE action_type = 'subscriber.added'")
	if code, out, _ := run(t, "verify", "--data-dir", dir); code != 1 || !strings.Contains(out, "verify --repair-times") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out := succeed(t, "verify", "--repair-times", "--data-dir", dir); out != "1 times moved to the present\nno faults\n" {
		t.Error(out)
	}
}
