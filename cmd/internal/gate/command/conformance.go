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

	"opsgate/cmd/internal/conformance"
)

type conform struct {
	Fleet      string `placeholder:"ADDR" help:"Address of the fleet service."`
	Monitoring string `placeholder:"ADDR" help:"Address of the monitoring service."`
	Incident   string `placeholder:"ADDR" help:"Address of the incident service."`
	Audit      string `placeholder:"ADDR" help:"Address of the audit service."`
	Identity   string `placeholder:"ADDR" help:"Address of the identity service."`

	Fixtures string        `required:"" placeholder:"FILE" help:"Ids and tokens of two teams; deploy/conformance-fixtures.yaml is an example."`
	Only     string        `default:"*" placeholder:"PATTERN" help:"Run only checks with matching names: * is any text, as in 'incident/*'."`
	Writes   bool          `help:"Run checks that create incidents too. The incidents remain. Without it, these checks are skipped."`
	Timeout  time.Duration `default:"10s" help:"Timeout of a call (${default})."`
	JSON     bool          `name:"json" help:"Print JSON."`
	JUnit    string        `name:"junit" placeholder:"FILE" help:"Also write JUnit XML to FILE."`

	TLS        bool   `name:"tls" help:"Call the services over TLS."`
	CA         string `name:"ca" placeholder:"FILE" help:"Root certificates of the services (the system's)."`
	Cert       string `placeholder:"FILE" and:"cert" help:"Client certificate."`
	Key        string `placeholder:"FILE" and:"cert" help:"Key of the client certificate."`
	ServerName string `placeholder:"NAME" help:"Host name in the services' certificates, if it differs from the address."`

	options conformance.Options
}

// AfterApply reads the files of the flags. Its errors are usage errors.
func (c *conform) AfterApply(e Environment) (err error) {
	c.options = conformance.Options{
		Addresses: map[string]string{
			"fleet": c.Fleet, "monitoring": c.Monitoring, "incident": c.Incident, "audit": c.Audit, "identity": c.Identity,
		},
		Writes: c.Writes, Timeout: c.Timeout,
	}
	if c.Fleet+c.Monitoring+c.Incident+c.Audit+c.Identity == "" {
		return errors.New("no address: give the address of at least one service, for example --fleet ADDR")
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout must be longer than 0")
	}
	if c.options.Checks, err = conformance.Select(c.Only); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if c.options.Fixtures, err = conformance.Load(c.Fixtures, e.Variables); err != nil {
		return err
	}
	c.options.TLS, err = c.tls()
	return err
}

// tls returns the TLS configuration, or nil for plaintext.
func (c *conform) tls() (*tls.Config, error) {
	if !c.TLS {
		if c.CA+c.Cert+c.ServerName != "" {
			return nil, errors.New("--ca, --cert, --key and --server-name need --tls")
		}
		return nil, nil //nolint:nilnil // nil means plaintext
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		settings.Certificates = []tls.Certificate{certificate}
	}
	if c.CA != "" {
		roots, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read the root certificates: %w", err)
		}
		if settings.RootCAs = x509.NewCertPool(); !settings.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("read the root certificates: %s contains none", c.CA)
		}
	}
	return settings, nil
}

// Run runs the checks and prints the report. It returns an error if a check fails.
func (c *conform) Run(ctx context.Context, e Environment) error {
	report, err := conformance.Run(ctx, c.options)
	if err != nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	if err := errors.Join(write(e.Out), c.writeJUnit(report)); err != nil {
		return err
	}
	if report.Failed > 0 {
		return fmt.Errorf("the contract is broken: %v", report)
	}
	return nil
}

func (c *conform) writeJUnit(report conformance.Report) error {
	if c.JUnit == "" {
		return nil
	}
	var text bytes.Buffer
	if err := report.WriteJUnit(&text); err != nil {
		return err
	}
	if err := os.WriteFile(c.JUnit, text.Bytes(), 0o644); err != nil { //nolint:gosec // CI reads it as another user
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}
