package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/commandline"
)

// conform is the flags of the command.
type conform struct {
	conformance.Options

	addresses      map[string]*string // of the services
	fixtures, only string
	json           bool
	junit          string // the file; "" for none

	tls                       bool
	ca, cert, key, serverName string
}

func conformanceCommand(e Environment) *cobra.Command {
	f := &conform{addresses: make(map[string]*string)}
	c := &cobra.Command{
		Use: "conformance", Short: "Test internal services against the contract; exit 1 if one violates it, 3 if it is " +
			"not proved",
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), e) },
	}
	flags := c.Flags()
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		f.addresses[service] = flags.String(service, "", "`ADDR` of the "+service+" service")
	}
	flags.StringVar(&f.fixtures, "fixtures", "",
		"`FILE` with ids and tokens of teams; deploy/conformance-fixtures.yaml is an example")
	flags.StringVar(&f.only, "only", "*",
		"run only checks with names that match `PATTERN`: * is any text, as in 'incident/*'")
	flags.BoolVar(&f.Writes, "writes", false,
		"run checks that create incidents or revoke a token too. The incidents remain. Without it, these checks are skipped")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Second, "`TIME` for each call")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVar(&f.junit, "junit", "", "also write JUnit XML to `FILE`")
	flags.BoolVar(&f.tls, "tls", false, "call the services over TLS")
	flags.StringVar(&f.ca, "ca", "", "`FILE` with root certificates of the services (the system's)")
	flags.StringVar(&f.cert, "cert", "", "`FILE` with the client certificate")
	flags.StringVar(&f.key, "key", "", "`FILE` with the key of the client certificate")
	flags.StringVar(&f.serverName, "server-name", "",
		"host `NAME` in the services' certificates, if it differs from the address")
	commandline.Required(c, "fixtures")
	c.MarkFlagsRequiredTogether("cert", "key")
	return c
}

// read sets the options by the flags and the files that they name.
func (c *conform) read(e Environment) (err error) {
	c.Addresses = make(map[string]string)
	for service, address := range c.addresses {
		if *address != "" {
			c.Addresses[service] = *address
		}
	}
	if len(c.Addresses) == 0 {
		return errors.New("no address: give the address of at least one service, for example --fleet ADDR")
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout must be longer than 0")
	}
	if c.Checks, err = conformance.Select(c.only); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if c.Fixtures, err = conformance.Load(c.fixtures, e.Variables); err != nil {
		return err
	}
	c.TLS, err = c.encryption()
	return err
}

// encryption returns the TLS configuration, or nil for plaintext.
func (c *conform) encryption() (*tls.Config, error) {
	if !c.tls {
		if c.ca+c.cert+c.serverName != "" {
			return nil, errors.New("--ca, --cert, --key and --server-name need --tls")
		}
		return nil, nil //nolint:nilnil // nil means plaintext
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.serverName}
	if c.cert != "" {
		certificate, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		settings.Certificates = []tls.Certificate{certificate}
	}
	if c.ca != "" {
		roots, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("read the root certificates: %w", err)
		}
		if settings.RootCAs = x509.NewCertPool(); !settings.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("read the root certificates: %s contains none", c.ca)
		}
	}
	return settings, nil
}

// A notProvedError reports that checks lack evidence, and none failed.
type notProvedError struct{ report conformance.Report }

func (e notProvedError) Error() string {
	return fmt.Sprintf("the contract is not proved: %v", e.report)
}

// ExitCode returns 3.
func (notProvedError) ExitCode() int { return 3 }

// run runs the checks and prints the report. It returns an error unless all checks pass or are
// skipped.
func (c *conform) run(ctx context.Context, e Environment) error {
	if err := c.read(e); err != nil {
		return commandline.UsageError{Err: err}
	}
	report, err := conformance.Run(ctx, c.Options)
	if err != nil {
		return err
	}
	write := report.WriteText
	if c.json {
		write = report.WriteJSON
	}
	if err := errors.Join(write(e.Out), c.writeJUnit(report)); err != nil {
		return err
	}
	if report.Failed > 0 {
		return fmt.Errorf("the contract is broken: %v", report)
	}
	if report.Unproved > 0 {
		return notProvedError{report}
	}
	return nil
}

func (c *conform) writeJUnit(report conformance.Report) error {
	if c.junit == "" {
		return nil
	}
	var text bytes.Buffer
	if err := report.WriteJUnit(&text); err != nil {
		return err
	}
	if err := os.WriteFile(c.junit, text.Bytes(), 0o644); err != nil { //nolint:gosec // CI reads it as another user
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}
