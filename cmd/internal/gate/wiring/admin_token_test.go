package wiring_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// withAdminKeys sets the section admin of later configurations.
func (r *running) withAdminKeys(keys string) {
	r.base, _, _ = strings.Cut(r.base, "admin: {")
	r.base += "admin: {" + keys + "}\n"
}

// statusOf returns the status of a path of the admin listener for a token, "" for none.
func (r *running) statusOf(t *testing.T, token, path string) int {
	t.Helper()
	got, err := r.send(r.AdminAddress(), path, token)
	testkit.Must(t, err)
	_, _ = io.Copy(io.Discard, got.Body)
	_ = got.Body.Close()
	return got.StatusCode
}

// follow requests a trace of a minute, and returns a function that waits until the gateway ends the
// stream.
func (r *running) follow(t *testing.T, token string) (ended func()) {
	t.Helper()
	stream, err := r.send(r.AdminAddress(), "/debug/pprof/trace?seconds=60", token)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the trace: got %v, %v", stream, err)
	}
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stream.Body)
		_ = stream.Body.Close()
		close(closed)
	}()
	return func() {
		t.Helper()
		select {
		case <-closed:
		case <-time.After(testkit.MaxWait):
			t.Fatal("the trace goes on")
		}
	}
}

// secrets returns a function that replaces a file with a secret in one step, and returns its path.
func secrets(t *testing.T) func(name, secret string) string {
	t.Helper()
	dir := t.TempDir()
	return func(name, secret string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(file+".next", []byte(secret+"\n"), 0o600))
		testkit.Must(t, os.Rename(file+".next", file))
		return file
	}
}

// The token for metrics is set, its file changes, and it is removed. It never opens another path.
// One that equals the admin token is refused.
func TestTokenForMetricsChangesWithoutARestart(t *testing.T) {
	const operators, first, second = "the-token-of-the-operators", "the-first-token-of-Prometheus", "the-second-token-of-Prometheus"
	secret := secrets(t)
	r := start(t, limits(100))
	admin := fmt.Sprintf("token: \"${file:%s}\"", secret("operators", operators))
	r.withAdminKeys(admin)
	testkit.Must(t, r.reload(t, limits(100)))
	may := func(token string, metrics int) func() bool {
		return func() bool {
			return r.statusOf(t, token, "/metrics") == metrics && (token == operators) == (r.statusOf(t, token, "/admin/config") == http.StatusOK) &&
				(token == operators) == (r.statusOf(t, token, "/debug/pprof/cmdline") == http.StatusOK)
		}
	}
	for i, step := range []struct {
		change      func()
		first, next int // status of /metrics
		line        string
	}{
		{func() {
			r.withAdminKeys(admin + fmt.Sprintf(", metrics_token: \"${file:%s}\"", secret("metrics", first)))
			r.write(t, limits(100))
		}, 200, 401, "the token for metrics changed: any previous one is refused"},
		{func() { secret("metrics", second) }, 401, 200, "the token for metrics changed: any previous one is refused"},
		{func() { r.withAdminKeys(admin); r.write(t, limits(100)) }, 401, 401, "the token for metrics was removed: it is refused"},
	} {
		logged := len(r.lines(step.line))
		step.change()
		testkit.Eventually(t, "the change is in force", func() bool {
			return may(first, step.first)() && may(second, step.next)() && may(operators, 200)()
		})
		if n := len(r.lines(step.line)); n != logged+1 {
			t.Errorf("change %d: %d lines %q", i, n, step.line)
		}
	}
	r.withAdminKeys(admin + fmt.Sprintf(", metrics_token: \"${file:%s}\"", secret("metrics", operators)))
	if err := r.reload(t, limits(100)); err == nil || !strings.Contains(err.Error(), "admin.metrics_token: is the same as admin.token") {
		t.Errorf("the same token for both: %v", err)
	}
	for _, token := range []string{operators, first, second} {
		if strings.Contains(r.log.String(), token) {
			t.Error("the log has a token")
		}
	}
}

// The admin token is set, its file changes, the configuration names another file, and then none.
// The previous token is refused at once, and its streams end; the removal leaves a warning.
func TestAdminTokenChangesWithoutARestart(t *testing.T) {
	tokens := []string{"", "the-first-token-of-operators", "the-second-token-of-operators", "the-third-token-of-operators"}
	secret := secrets(t)
	r := start(t, limits(100))
	withoutToken := r.base
	use := func(file string) {
		r.withAdminKeys(fmt.Sprintf("token: \"${file:%s}\"", file))
		r.write(t, limits(100))
	}
	for i, change := range []func(){
		func() { use(secret("one", tokens[1])) },
		func() { secret("one", tokens[2]) },
		func() { use(secret("two", tokens[3])) },
	} {
		old, next := tokens[i], tokens[i+1]
		ended := r.follow(t, old)
		change()
		testkit.Eventually(t, "the next token is in force", func() bool {
			return r.statusOf(t, old, "/admin/config") == http.StatusUnauthorized && r.statusOf(t, next, "/admin/config") == http.StatusOK
		})
		ended()
		if n := len(r.lines("the admin token changed: any previous one is refused")); n != i+1 {
			t.Errorf("change %d: %d changes are logged", i, n)
		}
	}
	r.base = withoutToken
	testkit.Must(t, r.reload(t, limits(300)))
	r.mustAdmit(t, 300)
	if got := r.statusOf(t, "", "/admin/config"); got != http.StatusOK {
		t.Errorf("after the token was removed: got %d without one", got)
	}
	if n := len(r.lines("the admin token was removed: the admin listener requires none")); n != 1 {
		t.Errorf("the removal of the token is logged %d times", n)
	}
	for _, token := range tokens[1:] {
		if strings.Contains(r.log.String(), token) {
			t.Error("the log has a token")
		}
	}
}
