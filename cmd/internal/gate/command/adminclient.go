package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/certs"
	"opsgate/internal/commandline"
)

// maxResponse bounds the bytes of a response: a file of 1 MiB has up to ten times as many in its
// effective values.
const maxResponse = 64 << 20

// adminTLS has the flags for an admin listener with TLS.
type adminTLS struct{ CA, Cert, Key string }

// An adminClient sends requests to an admin listener.
type adminClient struct {
	base      string
	token     string
	timeout   time.Duration
	hint      string // added to connection errors; "" if the address is configured or given
	transport *http.Transport
}

// adminFlags are the flags that select an admin listener.
type adminFlags struct {
	configFile
	adminTLS

	Admin string
}

func (f *adminFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	f.configFile.addTo(flags)
	flags.StringVar(&f.CA, "ca", "",
		"`FILE` with the roots of the admin listener's certificate; by default it must be the configured one")
	flags.StringVar(&f.Cert, "cert", "", "`FILE` with the client certificate, if the configuration has client_ca_file")
	flags.StringVar(&f.Key, "key", "", "`FILE` with the key of the client certificate")
	flags.StringVar(&f.Admin, "admin", "",
		"`ADDR` of the admin listener, host:port or URL. A configuration is then read only with --config")
	c.MarkFlagsRequiredTogether("cert", "key")
}

// newClient returns a client of the listener at --admin, or else of the configured one. The
// settings override the configuration.
func (f *adminFlags) newClient(e Environment, flags ...config.Setting) (*adminClient, error) {
	var loaded config.Loaded
	if f.Admin == "" || f.Config != "" {
		var err error
		if loaded, err = f.loadAdmin(e, flags...); err != nil {
			return nil, err
		}
	}
	scheme := "http"
	if loaded.Admin.TLS.CertFile != "" || f.CA+f.Cert != "" {
		scheme = "https"
	}
	if f.Admin == "" {
		client, err := newAdminClient(loaded, scheme+"://"+config.Reachable(loaded.Admin.Listen), f.adminTLS)
		if err == nil && loaded.Path == "" && loaded.IsDefault("admin.listen") {
			client.hint = "this is the default address because there is no configuration file: set --config or --admin"
		}
		return client, err
	}
	base, err := baseOf(f.Admin, scheme)
	if err != nil {
		return nil, commandline.UsageError{Err: err}
	}
	client, err := newAdminClient(config.Loaded{}, base, f.adminTLS)
	if err == nil {
		client.token = loaded.Admin.Token.Reveal()
	}
	return client, err
}

var errAdminAddress = errors.New("--admin is an address with a port, for example gate-7:9090, or a URL, for example " +
	"https://gate-7:9090")

// baseOf returns the URL for the value of --admin. The scheme is for a value without one.
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

// newAdminClient returns a client of the listener at the URL. Without files.CA, the listener must
// have the certificate of the configuration.
func newAdminClient(loaded config.Loaded, base string, files adminTLS) (*adminClient, error) {
	settings, err := certs.ClientFiles{CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key}.Config()
	if err != nil {
		return nil, err
	}
	if own := loaded.Admin.TLS.CertFile; files.CA == "" && own != "" {
		settings.InsecureSkipVerify = true // VerifyConnection compares the certificate instead
		settings.VerifyConnection = certs.IsOwn(string(own))
	}
	transport := &http.Transport{TLSClientConfig: settings} // without the proxies of the environment
	return &adminClient{base: base, token: loaded.Admin.Token.Reveal(), transport: transport}, nil
}

func (c *adminClient) close() { c.transport.CloseIdleConnections() }

// do sends a request and returns the status and the body of the response.
func (c *adminClient) do(
	ctx context.Context, method, target string, header http.Header, content io.Reader,
) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+target, content)
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(request.Header, header)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return 0, nil, c.explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return 0, nil, fmt.Errorf("read the response: %w", c.explain(err))
	}
	if len(body) > maxResponse {
		return 0, nil, fmt.Errorf("the response is larger than %d MiB", maxResponse>>20)
	}
	return response.StatusCode, body, nil
}

// explain adds the timeout or the hint to a connection error.
func (c *adminClient) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s (--timeout)", c.base, c.timeout)
	}
	if c.hint != "" {
		err = fmt.Errorf("%w (%s)", err, c.hint)
	}
	return err
}

// get returns the body of a successful response to GET.
func (c *adminClient) get(ctx context.Context, target string) ([]byte, error) {
	return c.check(c.do(ctx, http.MethodGet, target, nil, nil))
}

// check returns the body, or an error for an unsuccessful response.
func (c *adminClient) check(status int, body []byte, err error) ([]byte, error) {
	if err != nil || status < http.StatusBadRequest {
		return body, err
	}
	var failure admin.Failure
	if json.Unmarshal(body, &failure) != nil || failure.Text == "" {
		return nil, fmt.Errorf("%s answered %d: %.200s", c.base, status, bytes.TrimSpace(body))
	}
	texts := []string{failure.Text}
	for _, name := range slices.Sorted(maps.Keys(failure.Details)) {
		texts = append(texts, name+": "+failure.Details[name])
	}
	return nil, fmt.Errorf("%s answered %d: %s", c.base, status, strings.Join(texts, "; "))
}

// read reads a response as JSON.
func (c *adminClient) read(ctx context.Context, target string, into any) error {
	body, err := c.get(ctx, target)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
