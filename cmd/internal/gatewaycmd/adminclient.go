package gatewaycmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/certs"
	"opsgate/cmd/internal/commandline"
	"opsgate/cmd/internal/config"
)

// answerMax bounds what is read of an answer.
const answerMax = 4 << 20

// adminTLS is how a command knows an admin listener with TLS, and makes itself known.
type adminTLS struct {
	CA   string `name:"ca" placeholder:"FILE" help:"Roots of the admin listener's certificate; without, the one that the configuration names."`
	Cert string `placeholder:"FILE" and:"cert" help:"Certificate to show, where the configuration has client_ca_file."`
	Key  string `placeholder:"FILE" and:"cert" help:"Its key."`
}

// An adminClient asks the admin listener of the gateway that has a configuration.
type adminClient struct {
	base      string
	token     string
	patience  time.Duration
	guessed   string // why nobody may be at base; "" where somebody said where to ask
	transport *http.Transport
}

// reaching is which admin listener is asked, and how.
type reaching struct {
	configFile
	adminTLS

	Admin string `placeholder:"ADDR" xor:"admin" help:"Admin listener to ask, as host:port or URL; then only --config reads a configuration."`
}

// reach returns a client of the listener that --admin names, or else of the configured one, over which the flags go.
func (r *reaching) reach(e Environment, flags ...config.Setting) (*adminClient, error) {
	var loaded config.Loaded
	if r.Admin == "" || r.Config != "" {
		var err error
		if loaded, err = r.loadAdmin(e, flags...); err != nil {
			return nil, err
		}
	}
	scheme := "http"
	if loaded.Admin.TLS.CertFile != "" || r.CA+r.Cert != "" {
		scheme = "https"
	}
	if r.Admin == "" {
		client, err := newAdminClient(loaded, scheme+"://"+config.Reachable(loaded.Admin.Listen), r.adminTLS)
		if err == nil && loaded.Path == "" && loaded.IsDefault("admin.listen") {
			client.guessed = "the default address was asked, as there is no configuration file: name one by --config, or the listener by --admin"
		}
		return client, err
	}
	base, err := baseOf(r.Admin, scheme)
	if err != nil {
		return nil, commandline.UsageError{Err: err}
	}
	client, err := newAdminClient(config.Loaded{}, base, r.adminTLS)
	if err == nil {
		client.token = loaded.Admin.Token.Reveal()
	}
	return client, err
}

var errAdminAddress = errors.New("--admin is an address with its port such as gate-7:9090, or a URL such as https://gate-7:9090")

// baseOf returns the URL of what --admin names, by the scheme where it names none.
func baseOf(named, scheme string) (string, error) {
	if !strings.Contains(named, "://") {
		if _, _, err := net.SplitHostPort(named); err != nil {
			return "", errAdminAddress
		}
		named = scheme + "://" + config.Reachable(named)
	}
	u, err := url.Parse(named)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", errAdminAddress
	}
	if base := u.Scheme + "://" + u.Host; strings.TrimRight(named, "/") == base {
		return base, nil
	}
	return "", errAdminAddress // there is a path, a query or a user
}

// newAdminClient makes a client of the listener at the URL. Where that of the configuration has a certificate, it is known by it.
func newAdminClient(loaded config.Loaded, base string, files adminTLS) (*adminClient, error) {
	c := &adminClient{
		base: base, token: loaded.Admin.Token.Reveal(),
		transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, // no proxy stands between the two
	}
	settings := c.transport.TLSClientConfig
	if files.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate to show: %w", err)
		}
		settings.Certificates = []tls.Certificate{certificate}
	}
	switch {
	case files.CA != "":
		roots, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, fmt.Errorf("read the roots: %w", err)
		}
		if settings.RootCAs = x509.NewCertPool(); !settings.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("read the roots: there is none in %s", files.CA)
		}
	case loaded.Admin.TLS.CertFile != "":
		settings.InsecureSkipVerify = true // the certificate itself is known, whatever its name and roots are
		settings.VerifyConnection = certs.IsOwn(string(loaded.Admin.TLS.CertFile))
	}
	return c, nil
}

func (c *adminClient) close() { c.transport.CloseIdleConnections() }

// do asks, and returns the status and the body of the answer.
func (c *adminClient) do(ctx context.Context, method, target string, header http.Header) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+target, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(request.Header, header)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return 0, nil, c.unanswered(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer: %w", c.unanswered(err))
	}
	return response.StatusCode, body, nil
}

// unanswered says why there is no answer.
func (c *adminClient) unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not answer within %s, which --timeout changes", c.base, c.patience)
	}
	if c.guessed != "" {
		err = fmt.Errorf("%w (%s)", err, c.guessed)
	}
	return err
}

// get asks for something that must be there.
func (c *adminClient) get(ctx context.Context, target string) ([]byte, error) {
	return c.must(c.do(ctx, http.MethodGet, target, nil))
}

// must makes an error of an answer that is no success.
func (c *adminClient) must(status int, body []byte, err error) ([]byte, error) {
	if err != nil || status < http.StatusBadRequest {
		return body, err
	}
	var failure admin.Failure
	if json.Unmarshal(body, &failure) != nil || failure.Text == "" {
		return nil, fmt.Errorf("%s answered %d: %.200s", c.base, status, bytes.TrimSpace(body))
	}
	said := []string{failure.Text}
	for _, name := range slices.Sorted(maps.Keys(failure.Details)) {
		said = append(said, name+": "+failure.Details[name])
	}
	return nil, fmt.Errorf("%s answered %d: %s", c.base, status, strings.Join(said, "; "))
}
