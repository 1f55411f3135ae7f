package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/internal/certs"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

const (
	used   = "the current TLS files are in use"
	unused = "the current TLS files are not used"
)

// A scenario has files that change.
type scenario struct {
	*certs.Reloader

	files certs.ClientFiles
	log   bytes.Buffer
}

func newScenario(t *testing.T, files certs.ClientFiles) *scenario {
	t.Helper()
	s := &scenario{files: files}
	var err error
	s.Reloader, err = files.Reloader(slog.New(slog.NewTextHandler(&s.log, nil)))
	testkit.Must(t, err)
	return s
}

// mustBe checks the configuration of a new connection, twice, and the log lines.
func (s *scenario) mustBe(t *testing.T, name string, lines ...string) *tls.Config {
	t.Helper()
	s.log.Reset()
	config := s.Config(t.Context())
	if s.Config(t.Context()) != config {
		t.Error("unchanged files were parsed again")
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	testkit.Must(t, err)
	if leaf.Subject.CommonName != name {
		t.Errorf("certificate of %s, want %s", leaf.Subject.CommonName, name)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: config.RootCAs, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err) // roots and certificate are of one authority
	}
	got := slices.Collect(strings.Lines(s.log.String()))
	if len(got) != len(lines) {
		t.Fatalf("logged %q, want %q", got, lines)
	}
	for i, line := range lines {
		if !strings.Contains(got[i], line) {
			t.Errorf("logged %q, want %q", got[i], line)
		}
	}
	return config
}

func TestValidChangedFilesAreUsed(t *testing.T) {
	folder := t.TempDir()
	first, second := certstest.NewAuthority(t, "first"), certstest.NewAuthority(t, "second")
	s := newScenario(t, first.Write(t, folder, "a"))
	before := s.mustBe(t, "a")

	second.Write(t, folder, "b")
	if s.mustBe(t, "b", used) == before {
		t.Error("the configuration of existing connections was changed")
	}
	key, err := os.ReadFile(s.files.KeyFile)
	testkit.Must(t, err)
	when := time.Now().Add(-time.Hour)
	put := func(path string, content []byte) { // tools that renew files may keep their size and time
		t.Helper()
		testkit.Must(t, os.WriteFile(path, content, 0o600))
		testkit.Must(t, os.Chtimes(path, when, when))
	}
	put(s.files.KeyFile, key)
	s.mustBe(t, "b")
	put(s.files.KeyFile, bytes.Repeat([]byte("x"), len(key)))
	s.mustBe(t, "b", unused)
	s.mustBe(t, "b") // it is logged already
	put(s.files.KeyFile, key)
	s.mustBe(t, "b", used)
	put(s.files.KeyFile, []byte("half of"))
	s.mustBe(t, "b", unused)
	put(s.files.CAFile, []byte("nothing"))
	s.mustBe(t, "b", unused) // for another reason
	testkit.Must(t, os.Remove(s.files.CertFile))
	s.mustBe(t, "b", unused+`" error="read the certificate: open `+s.files.CertFile)
	first.Write(t, folder, "c")
	s.mustBe(t, "c", used)
}

func TestServersWithCBCSuitesOnlyAreRefused(t *testing.T) {
	authority := certstest.NewAuthority(t, "known")
	files := authority.Write(t, t.TempDir(), "client")
	files.ServerName = "server"
	config, err := files.Config()
	testkit.Must(t, err)
	for _, offer := range []struct {
		suite uint16
		taken bool
	}{
		{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, false}, {tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, false},
		{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, true},
	} {
		served := authority.Config(t, "server")
		served.MaxVersion, served.CipherSuites = tls.VersionTLS12, []uint16{offer.suite}
		here, there := net.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- tls.Server(there, served).HandshakeContext(t.Context())
			_ = there.Close()
		}()
		if err := tls.Client(here, config).HandshakeContext(t.Context()); (err == nil) != offer.taken {
			t.Errorf("%s: %v", tls.CipherSuiteName(offer.suite), err)
		}
		_ = here.Close()
		<-ended
	}
}

func TestRecoveryOfAMissingFileIsLogged(t *testing.T) {
	s := newScenario(t, certstest.NewAuthority(t, "known").Write(t, t.TempDir(), "a"))
	testkit.Must(t, os.Rename(s.files.CAFile, s.files.CAFile+".moved"))
	s.mustBe(t, "a", unused)
	testkit.Must(t, os.Rename(s.files.CAFile+".moved", s.files.CAFile))
	s.mustBe(t, "a", used)
}

// A pipe without a writer, which cannot be opened for reading without waiting, delays no
// connection.
func TestPipeInsteadOfAFileIsNotUsed(t *testing.T) {
	s := newScenario(t, certstest.NewAuthority(t, "known").Write(t, t.TempDir(), "a"))
	testkit.Must(t, os.Remove(s.files.KeyFile))
	testkit.Must(t, syscall.Mkfifo(s.files.KeyFile, 0o600))
	s.mustBe(t, "a", unused+`" error="read the key: `+s.files.KeyFile+" is a pipe")
}

func TestInvalidFilesAreRefused(t *testing.T) {
	good := certstest.NewAuthority(t, "known").Write(t, t.TempDir(), "a")
	other := certstest.NewAuthority(t, "other").Write(t, t.TempDir(), "b")
	for name, files := range map[string]certs.ClientFiles{
		"no such roots":        {CAFile: good.CAFile + "x"},
		"roots that are a key": {CAFile: good.KeyFile},
		"no such certificate":  {CertFile: good.CertFile + "x", KeyFile: good.KeyFile},
		"no such key":          {CertFile: good.CertFile, KeyFile: good.KeyFile + "x"},
		"no name of a key":     {CertFile: good.CertFile},
		"the key of another":   {CertFile: good.CertFile, KeyFile: other.KeyFile},
		"a certificate as key": {CertFile: good.CertFile, KeyFile: good.CertFile},
	} {
		_, reload := files.Reloader(slog.New(slog.DiscardHandler))
		_, read := files.Config()
		if reload == nil || read == nil || reload.Error() != read.Error() || !strings.HasPrefix(read.Error(), "read the ") {
			t.Errorf("%s: %v, %v", name, reload, read)
		}
	}
}

func TestNoFilesMeansSystemRoots(t *testing.T) {
	config, err := certs.ClientFiles{ServerName: "redis.example"}.Config()
	testkit.Must(t, err)
	if config.RootCAs != nil || config.Certificates != nil || config.ServerName != "redis.example" || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("%+v", config)
	}
}
