package command_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/command"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// run runs the program to its end.
func run(t *testing.T, arguments ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Run(t.Context(), arguments, command.Environment{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// succeed runs the program, fails the test if the program fails, and returns its output.
func succeed(t *testing.T, arguments ...string) string {
	t.Helper()
	code, out, errs := run(t, arguments...)
	if code != 0 {
		t.Fatalf("%v: exit code %d, %s", arguments, code, errs)
	}
	return out
}

// A usage is a command line that ends with a code, and prints a text.
type usage struct {
	code              int
	arguments, output string
}

func (u usage) check(t *testing.T) {
	t.Helper()
	code, out, errs := run(t, strings.Fields(u.arguments)...)
	if code != u.code || !strings.Contains(out+errs, u.output) || strings.Contains(out+errs, "s3cret") {
		t.Errorf("opsbackend %s: exit code %d, want %d with %q\n%s%s", u.arguments, code, u.code, u.output, out, errs)
	}
	if (code == 0) != (errs == "") {
		t.Errorf("opsbackend %s: exit code %d and on standard error: %q", u.arguments, code, errs)
	}
}

// A server is a running program.
type server struct {
	t *testing.T
	// admin is the URL of this listener, if there is one.
	admin  string
	ingest string // the address of this listener, if there is one
	conn   *grpc.ClientConn
	stop   func() (code int)
}

// serve starts the program and waits for the address in its log.
func serve(t *testing.T, arguments ...string) *server {
	t.Helper()
	logs, log := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		arguments := append([]string{"serve", "--listen", "127.0.0.1:0"}, arguments...)
		done <- command.Run(ctx, arguments, command.Environment{Out: io.Discard, Err: log})
		log.Close()
	}()
	lines := json.NewDecoder(logs)
	var record struct{ Msg, Address, Admin, Ingest string }
	for record.Msg != "serving" {
		testkit.Must(t, lines.Decode(&record))
	}
	go io.Copy(io.Discard, logs) //nolint:errcheck // the program blocks if the log is not read
	conn, err := grpc.NewClient(record.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	testkit.Must(t, err)
	s := &server{t: t, conn: conn, admin: "http://" + record.Admin, ingest: record.Ingest}
	s.stop = sync.OnceValue(func() int {
		testkit.Must(t, conn.Close())
		cancel()
		return <-done
	})
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *server) resolve(token string) (*identityv1.ResolveTokenResponse, error) {
	hash := authn.Hash(token)
	return identityv1.NewIdentityServiceClient(s.conn).ResolveToken(s.t.Context(),
		&identityv1.ResolveTokenRequest{TokenSha256: hash[:]})
}

func TestTokenCreateResolveRevoke(t *testing.T) {
	dir := t.TempDir()
	team := strings.TrimSpace(succeed(t, "team", "create", "--data-dir", dir, "Harbour"))
	if list := succeed(t, "team", "list", "--data-dir", dir); !strings.Contains(list, team) || !strings.Contains(list, "Harbour") {
		t.Errorf("teams:\n%s", list)
	}
	if code, _, errs := run(t, "team", "create", "--data-dir", dir, "Harbour"); code != 1 || !strings.Contains(errs, "Harbour") {
		t.Errorf("a second team with the name: exit code %d, %s", code, errs)
	}
	code, out, note := run(t, "token", "create", "--data-dir", dir, "--team", "Harbour", "--token-prefix", "acme_",
		"--scopes", "servers:read,audit:read", "--name", "reader", "--class", "gold", "--expires", "90d")
	token := strings.TrimSpace(out)
	if code != 0 || !(authn.TokenFormat{Prefix: "acme_"}).Valid(token) || strings.Contains(note, token) {
		t.Fatalf("exit code %d, token %q, note %q", code, token, note)
	}
	s := serve(t, "--data-dir", dir)
	resolved, err := s.resolve(token)
	testkit.Must(t, err)
	if resolved.GetTeamId() != team || strings.Join(resolved.GetScopes(), " ") != "audit:read servers:read" ||
		resolved.GetLimitClass() != "gold" || time.Until(resolved.GetExpiresAt().AsTime()).Round(time.Hour) != 90*24*time.Hour {
		t.Errorf("resolved to %v", resolved)
	}
	if list := succeed(t, "token", "list", "--data-dir", dir, "--expire-within", "89d"); strings.Contains(list, resolved.GetTokenId()) {
		t.Errorf("tokens that expire within 89 days:\n%s", list)
	}
	list := succeed(t, "token", "list", "--data-dir", dir, "--expire-within", "91d")
	if !strings.Contains(list, resolved.GetTokenId()) || !strings.Contains(list, "reader") || !strings.Contains(list, "gold") || strings.Contains(list, token) {
		t.Errorf("tokens:\n%s", list)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.MaxWait)
	defer cancel()
	watch, err := identityv1.NewIdentityServiceClient(s.conn).WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{})
	testkit.Must(t, err)
	_, err = watch.Recv()
	testkit.Must(t, err)
	succeed(t, "token", "revoke", "--data-dir", dir, resolved.GetTokenId())
	message, err := watch.Recv()
	for err == nil && message.GetRevocation() == nil { // a heartbeat
		message, err = watch.Recv()
	}
	testkit.Must(t, err)
	if message.GetRevocation().GetTokenId() != resolved.GetTokenId() {
		t.Errorf("the running program reported %v", message)
	}
	if _, err := s.resolve(token); status.Code(err) != codes.NotFound {
		t.Errorf("the revoked token is resolved: %v", err)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
	mustNotContain(t, dir, token)
}

func TestMintPrintsAValidTokenAndItsHash(t *testing.T) {
	seen := map[string]bool{}
	for _, prefix := range []string{"ops_", "acme_"} {
		for range 3 {
			code, out, errs := run(t, "token", "mint", "--token-prefix", prefix)
			fields := strings.Fields(out)
			if code != 0 || errs != "" || len(fields) != 4 || fields[0] != "token" || fields[2] != "sha256" {
				t.Fatalf("exit code %d, printed %q and %q", code, out, errs)
			}
			token := fields[1]
			hash := sha256.Sum256([]byte(token))
			if !(authn.TokenFormat{Prefix: prefix}).Valid(token) || fields[3] != hex.EncodeToString(hash[:]) || seen[token] {
				t.Errorf("prefix %s: printed %q", prefix, out)
			}
			seen[token] = true
		}
	}
	if code, out, errs := run(t, "token", "mint", "--token-prefix", "a.b"); code != 2 || out != "" || !strings.Contains(errs, "token prefix") {
		t.Errorf("an invalid prefix: exit code %d, printed %q and %q", code, out, errs)
	}
}

// mustNotContain fails the test if a file in the directory contains the text.
func mustNotContain(t *testing.T, dir, text string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file.Name()))
		testkit.Must(t, err)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s contains the token", file.Name())
		}
	}
}

func TestServeWithDemoData(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--seed", "demo", "--services", "fleet,identity", "--token-prefix", "acme_")
	tokens, err := demo.Tokens(authn.TokenFormat{Prefix: "acme_"})
	testkit.Must(t, err)
	resolved, err := s.resolve(tokens[0].Text)
	testkit.Must(t, err)
	servers, err := fleetv1.NewFleetServiceClient(s.conn).ListServers(t.Context(),
		&fleetv1.ListServersRequest{TeamId: resolved.GetTeamId()})
	testkit.Must(t, err)
	if len(servers.GetServers()) == 0 {
		t.Error("there are no servers")
	}
	_, err = auditv1.NewAuditServiceClient(s.conn).ListAuditEntries(t.Context(), &auditv1.ListAuditEntriesRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a service that is not named: %v", err)
	}
}

func TestReflectionIsServedOnlyIfEnabled(t *testing.T) {
	for _, test := range []struct {
		arguments []string
		want      codes.Code
	}{{nil, codes.Unimplemented}, {[]string{"--reflection"}, codes.OK}} {
		s := serve(t, append([]string{"--data-dir", t.TempDir()}, test.arguments...)...)
		stream, err := reflectionv1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
		testkit.Must(t, err)
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{ // Recv returns why it fails
			MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
		})
		if _, err := stream.Recv(); status.Code(err) != test.want {
			t.Errorf("%q: got %v, want %v", test.arguments, err, test.want)
		}
		s.stop()
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	notADir := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(notADir, nil, 0o600))
	const mailed = " --smtp 127.0.0.1:1 --mail-from status@a.example --manage-url https://a.example"
	for _, c := range []usage{
		{0, "--help", "opsbackend [command]"},
		{0, "serve --help", "--listen"},
		{0, "version", "opsbackend "},
		{0, "--version", "opsbackend "},
		{2, "", "expected a command"},
		{2, "frobnicate", "frobnicate"},
		{2, "serve", "\"data-dir\" not set"},
		{2, "serve --data-dir " + dir + " --frobnicate", "--frobnicate"},
		{2, "serve --data-dir " + dir + " --seed real", "real"},
		{2, "serve --data-dir " + dir + " --services fleet,billing", "billing"},
		{2, "serve --data-dir " + dir + " --token-prefix a.b", "token prefix"},
		{2, "serve --data-dir " + dir + " --smtp mail.example:587", "--smtp needs --mail-from"},
		{2, "serve --data-dir " + dir + " --smtp mail.example:587 --mail-from a@b.example", "--smtp needs --manage-url"},
		{2, "serve --data-dir " + dir + " --smtp mail.example", "--smtp needs a host and a port"},
		{2, "serve --data-dir " + dir + " --mail-from a@b.example", "--mail-from needs --smtp"},
		{2, "serve --data-dir " + dir + " --smtp-password-file x", "--smtp-user and --smtp-password-file need each other"},
		{2, "serve --data-dir " + dir + mailed + " --smtp-user harbour", "--smtp-user and --smtp-password-file need each other"},
		{
			2, "serve --data-dir " + dir + " --smtp 192.0.2.1:25 --smtp-tls none --smtp-user harbour --smtp-password-file x",
			"--smtp-user needs TLS",
		},
		{2, "serve --data-dir " + dir + mailed + " --no-delivery", "--no-delivery excludes --smtp"},
		{2, "serve --data-dir " + dir + mailed + " --smtp-tls ssl", "ssl"},
		{2, "serve --data-dir " + dir + " --smtp 127.0.0.1:1 --mail-from nobody --manage-url https://a.example", "address"},
		{1, "serve --data-dir " + dir + mailed + " --smtp-user harbour --smtp-password-file " + dir + "/none", "password"},
		{1, "serve --data-dir " + dir + " --admin-listen nowhere:x", "listen on nowhere:x"},
		{2, "token create --data-dir " + dir + " --team x --scopes servers:write", "servers:write"},
		{2, "token create --data-dir " + dir + " --team x --expires 3w", "--expires must be a time such as 90d or 12h"},
		{2, "token create --data-dir " + dir + " --team x --expires 0d", "--expires must be"},
		{2, "token list --data-dir " + dir + " --expire-within 1w", "--expire-within must be a time such as 90d"},
		{2, "token create --data-dir " + dir + " --team x --expires -1h", "--expires must be"},
		{2, "team create --data-dir " + dir + " x --plan gold", "gold"},
		{1, "team create --data-dir " + dir + " Har\abour", "control characters"},
		{1, "token create --data-dir " + dir + " --team unknown", "not found"},
		{1, "token revoke --data-dir " + dir + " 42", "not found"},
		{1, "serve --data-dir " + dir + " --listen nowhere:x", "listen on nowhere:x"},
		{1, "team create --data-dir " + notADir + " x", "data directory"},
		{1, "team list --data-dir " + notADir, "no database in " + notADir},
	} {
		c.check(t)
	}
}

func TestTeamSetPlan(t *testing.T) {
	dir := t.TempDir()
	team := strings.TrimSpace(succeed(t, "team", "create", "--data-dir", dir, "Harbour"))
	for _, plan := range []string{"basic", "basic", "ai"} {
		succeed(t, "team", "set-plan", "--data-dir", dir, "Harbour", plan)
		if list := succeed(t, "team", "list", "--data-dir", dir); !strings.Contains(list, " "+plan+" ") {
			t.Errorf("want %s:\n%s", plan, list)
		}
	}
	for arguments, want := range map[string]string{"Harbour gold": "unknown plan", "Nowhere ai": "not found"} {
		words := append([]string{"team", "set-plan", "--data-dir", dir}, strings.Fields(arguments)...)
		if code, _, errs := run(t, words...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", arguments, code, errs)
		}
	}
	response, err := auditv1.NewAuditServiceClient(serve(t, "--data-dir", dir).conn).ListAuditEntries(t.Context(),
		&auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: 10})
	testkit.Must(t, err)
	if n := len(response.GetEntries()); n != 3 || response.GetEntries()[0].GetActionType() != "team.updated" {
		t.Errorf("%d entries: %v", n, response.GetEntries())
	}
}
