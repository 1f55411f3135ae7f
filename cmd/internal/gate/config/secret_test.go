package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

func TestASecretComesFromAVariableOrAFile(t *testing.T) {
	dir := t.TempDir()
	secretFile, empty, marked := filepath.Join(dir, "secret"), filepath.Join(dir, "empty"), filepath.Join(dir, "marked")
	for file, content := range map[string]string{secretFile: "from a file\n", empty: "\n", marked: "\ufeffhunter2"} {
		testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
	}
	for _, test := range []struct{ name, text, want, problem string }{
		{"a variable", "${REDIS_PASSWORD}", "from a variable", ""},
		{"a file", "${file:" + secretFile + "}", "from a file", ""},
		{"a variable with its line end", "${LINE}", "a line", ""},
		{"a variable that is only a line end", "${EMPTY}", "", "EMPTY, which is not set"},
		{"a file of an editor that marks UTF-8", "${file:" + marked + "}", "", "begins with a byte order mark"},
		{"nothing", `""`, "", ""},
		{"a variable that is not set", "${REDIS_PASS}", "", "REDIS_PASS, which is not set"},
		{"a file that is not there", "${file:" + dir + "/missing}", "", "cannot be read"},
		{"an empty file", "${file:" + empty + "}", "", "which is empty"},
		{"a folder", "${file:" + dir + "}", "", "not a regular file"},
		{"the secret itself", "hunter2", "", "must not be the secret itself"},
		{"a part of it", "hunter${REDIS_PASSWORD}", "", "must not be the secret itself"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := config.Load(config.Options{
				Path:        write(t, "rate_limit: {redis: {password: \""+strings.Trim(test.text, `"`)+"\"}}\n"),
				Defaults:    upstreams(),
				Environment: []string{"REDIS_PASSWORD=from a variable", "LINE=a line\r\n", "EMPTY=\n"},
			})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), "hunter") {
					t.Errorf("got %v, want %q and no secret", err, test.problem)
				}
				return
			}
			if err != nil || got.RateLimit.Redis.Password.Reveal() != test.want {
				t.Errorf("got %q, %v, want %q", got.RateLimit.Redis.Password.Reveal(), err, test.want)
			}
		})
	}
}

// A variable may be the secret itself.
func TestNothingPrintsASecret(t *testing.T) {
	loaded, err := config.Load(config.Options{
		NoFile: true, Defaults: upstreams(), Environment: []string{"OPSGATE_RATE_LIMIT_REDIS_PASSWORD=hunter2\n"},
	})
	testkit.Must(t, err)
	if got := loaded.RateLimit.Redis.Password.Reveal(); got != "hunter2" {
		t.Errorf("the secret is %q", got)
	}
	secret, out := loaded.RateLimit.Redis.Password, new(bytes.Buffer)
	fmt.Fprintf(out, "%v %+v %#v %s %q\n", secret, secret, secret, secret, secret)
	fmt.Fprintf(out, "%v %+v %#v\n", loaded, loaded, loaded.RateLimit.Redis)
	slog.New(slog.NewJSONHandler(out, nil)).Info("loaded", "secret", secret, "redis", loaded.RateLimit.Redis)
	slog.New(slog.NewTextHandler(out, nil)).Info("loaded", "secret", secret, "redis", loaded.RateLimit.Redis)
	testkit.Must(t, json.NewEncoder(out).Encode(loaded))
	if strings.Contains(out.String(), "hunter2") || secret.Reveal() != "hunter2" {
		t.Errorf("the secret is in %s, or is not %q", out, secret.Reveal())
	}
	if !strings.Contains(out.String(), "(hidden)") {
		t.Errorf("no placeholder for the secret: %s", out)
	}
}

// YAML reads a secret that begins with * as an alias of an unknown anchor.
func TestASecretThatLooksLikeAnAliasIsNotReported(t *testing.T) {
	for _, content := range []string{"rate_limit: {redis: {password: *hunter2}}\n", "admin:\n  token: *hunter2'x\n", "*hunter2 : x\n"} {
		_, err := config.Load(config.Options{Path: write(t, content)})
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
