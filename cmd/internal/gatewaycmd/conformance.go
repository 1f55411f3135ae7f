package gatewaycmd

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

	Fixtures string        `required:"" placeholder:"FILE" help:"What is known of two teams; deploy/conformance-fixtures.yaml is an example."`
	Only     string        `default:"*" placeholder:"PATTERN" help:"Make the checks so named, where * stands for anything, as 'incident/*'."`
	Writes   bool          `help:"Make checks that create incidents too, which stay; without, they are skipped."`
	Timeout  time.Duration `default:"10s" help:"How long to wait for an answer (${default})."`
	JSON     bool          `name:"json" help:"Print JSON."`
	JUnit    string        `name:"junit" placeholder:"FILE" help:"Write JUnit's XML to FILE as well."`

	TLS        bool   `name:"tls" help:"Call the services over TLS."`
	CA         string `name:"ca" placeholder:"FILE" help:"Roots of the services' certificates; without, those of the system."`
	Cert       string `placeholder:"FILE" and:"cert" help:"Certificate to show."`
	Key        string `placeholder:"FILE" and:"cert" help:"Its key."`
	ServerName string `placeholder:"NAME" help:"Name that the certificates are of, where it is not that of the address."`

	options conformance.Options
}

// AfterApply reads what the flags name, so that what is wrong with it is wrong usage.
func (c *conform) AfterApply(e Environment) (err error) {
	c.options = conformance.Options{
		Addresses: map[string]string{
			"fleet": c.Fleet, "monitoring": c.Monitoring, "incident": c.Incident, "audit": c.Audit, "identity": c.Identity,
		},
		Writes: c.Writes, Timeout: c.Timeout,
	}
	if c.Fleet+c.Monitoring+c.Incident+c.Audit+c.Identity == "" {
		return errors.New("there is nothing to look at: give the address of a service, as --fleet ADDR")
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout is longer than 0")
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

// tls returns how the services are called over TLS, or nil where they are not.
func (c *conform) tls() (*tls.Config, error) {
	if !c.TLS {
		if c.CA+c.Cert+c.ServerName != "" {
			return nil, errors.New("--ca, --cert, --key and --server-name go with --tls")
		}
		return nil, nil //nolint:nilnil // none is a way to call as well
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate to show: %w", err)
		}
		settings.Certificates = []tls.Certificate{certificate}
	}
	if c.CA != "" {
		roots, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read the roots: %w", err)
		}
		if settings.RootCAs = x509.NewCertPool(); !settings.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("read the roots: there is none in %s", c.CA)
		}
	}
	return settings, nil
}

// Run makes the checks and reports. It fails if a service does not do what the contract says.
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
		return fmt.Errorf("the contract is not kept: %v", report)
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
