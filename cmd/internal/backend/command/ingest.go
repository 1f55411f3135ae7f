package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/service"
)

// ingest are the flags of serve for the listener on which agents and probes report.
type ingest struct{ Listen, SecretFile, ClientCA string }

func (i *ingest) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&i.Listen, "ingest-listen", "",
		"`ADDR` on which agents and probes report: metrics, checks, commands. Off by default")
	flags.StringVar(&i.SecretFile, "ingest-secret-file", "",
		"`FILE` with the secrets of reporters, one a line: each sends one of them")
	flags.StringVar(&i.ClientCA, "ingest-client-ca", "",
		"`FILE` with the roots of the certificates of reporters, which are then required")
}

// check returns an error for settings that need each other. Encrypted is whether there is a
// certificate of the services.
func (i ingest) check(encrypted bool) error {
	host, _, err := net.SplitHostPort(i.Listen)
	switch {
	case i.Listen == "" && (i.SecretFile != "" || i.ClientCA != ""):
		return errors.New("--ingest-secret-file and --ingest-client-ca need --ingest-listen")
	case i.Listen == "":
		return nil
	case err != nil:
		return fmt.Errorf("--ingest-listen needs a host and a port: %w", err)
	case i.SecretFile == "" && i.ClientCA == "":
		return errors.New("--ingest-listen needs --ingest-secret-file or --ingest-client-ca")
	case i.ClientCA != "" && !encrypted:
		return errors.New("--ingest-client-ca needs --tls-cert and --tls-key")
	case !encrypted && !mail.IsLoopback(host):
		return errors.New("--ingest-secret-file needs --tls-cert and --tls-key, or a loopback address: the secret would " +
			"be readable")
	}
	return nil
}

// minSecret is the length of the shortest secret of reporters.
const minSecret = 16

// secrets returns the secrets of reporters.
func (i ingest) secrets() ([]string, error) {
	if i.SecretFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(i.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of reporters: %w", err)
	}
	var secrets []string
	for line := range strings.Lines(string(content)) {
		secret := strings.TrimSpace(line)
		switch {
		case secret == "":
			continue
		case strings.ContainsFunc(secret, unicode.IsSpace):
			return nil, fmt.Errorf("%s has a line with more than a secret: a secret has no white space", i.SecretFile)
		case len(secret) < minSecret:
			return nil, fmt.Errorf("%s has a secret of less than %d characters", i.SecretFile, minSecret)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s has no secret", i.SecretFile)
	}
	return secrets, nil
}

// ingest opens the listener of reporters and returns the part that serves it, which does nothing
// without one, and attributes for the log.
func (s server) ingest(
	ctx context.Context, opened *listeners,
) (part func(context.Context) error, attributes []any, err error) {
	if s.Ingest.Listen == "" {
		return func(context.Context) error { return nil }, nil, nil
	}
	var o service.IngestOptions
	if o.Secrets, err = s.Ingest.secrets(); err != nil {
		return nil, nil, err
	}
	if o.TLS, err = s.tls("ingest", s.Ingest.ClientCA, s.logger); err != nil {
		return nil, nil, err
	}
	listener, err := opened.listen(ctx, s.Ingest.Listen)
	if err != nil {
		return nil, nil, err
	}
	part = func(ctx context.Context) error { return s.backend.ServeIngest(ctx, listener, o) }
	return part, []any{"ingest", listener.Addr().String()}, nil
}
