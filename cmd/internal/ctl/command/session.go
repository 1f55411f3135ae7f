package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"opsgate/internal/buildinfo"
	"opsgate/internal/commandline"
)

// Environment variables.
const (
	tokenVariable = "OPSCTL_TOKEN" //nolint:gosec // the name of the variable
	urlVariable   = "OPSCTL_URL"
)

// session sends the requests of a command.
type session struct {
	base      string // without a slash at its end
	transport *transport
}

// connect returns a session with the settings. It sends nothing. Mistakes in the settings are usage
// errors.
func (p *program) connect() (*session, error) {
	token, err := p.token()
	if err != nil {
		return nil, commandline.UsageError{Err: err}
	}
	shared, _ := p.pacers.LoadOrStore(token, new(pacer))
	paced, _ := shared.(*pacer)
	return p.connectAs(token, paced)
}

// connectAs is connect with a token.
func (p *program) connectAs(token string, paced *pacer) (*session, error) {
	base, err := p.baseURL()
	if err != nil {
		return nil, commandline.UsageError{Err: err}
	}
	return &session{base, &transport{
		client: newHTTPClient(), token: token, agent: "opsctl/" + buildinfo.Read().Version, maxWait: p.MaxWait,
		program: p, pacer: paced,
	}}, nil
}

// newHTTPClient returns a client that follows no redirect.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// baseURL returns the base URL of the API without a slash at its end.
func (p *program) baseURL() (string, error) {
	text := p.URL
	if text == "" {
		text = p.variable(urlVariable)
	}
	if text == "" {
		return "", errors.New("where is the API? Set $" + urlVariable + " or --url")
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", errors.New("the URL of the API must be like https://api.example.com, without a user, a query and a " +
			"fragment")
	}
	switch {
	case parsed.Scheme == "https":
	case parsed.Scheme != "http":
		return "", errors.New("the URL of the API must begin with https://")
	case !p.InsecureHTTP && !isLoopback(parsed.Hostname()):
		return "", fmt.Errorf("http:// would send the token to %s without encryption: use https://, or --insecure-http",
			parsed.Hostname())
	}
	return strings.TrimRight(parsed.String(), "/"), nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// maxToken is the largest size of a file with a token.
const maxToken = 4096

// token returns the token of the file or of the environment. Its errors never contain it.
func (p *program) token() (string, error) {
	text := p.variable(tokenVariable)
	from := "$" + tokenVariable
	if p.TokenFile != "" {
		content, err := readTokenFile(p.TokenFile)
		if err != nil {
			return "", err
		}
		text, from = content, p.TokenFile
	}
	text = strings.TrimSpace(text)
	if text == "" && p.TokenFile == "" {
		return "", errors.New("where is the API token? Set $" + tokenVariable + " or --token-file")
	}
	if !isToken(text) {
		return "", fmt.Errorf("%s does not contain an API token", from)
	}
	return text, nil
}

// isToken reports whether a text can be a token: visible ASCII characters.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// readTokenFile returns the content of a file that others cannot read.
func readTokenFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.IsDir() && info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("every user of this machine can read the token in %s: chmod 600 it", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxToken))
	return string(content), err
}

// variable returns an environment variable; "" if it is not set.
func (p *program) variable(name string) string {
	value := ""
	for _, v := range p.Variables {
		if text, found := strings.CutPrefix(v, name+"="); found {
			value = text
		}
	}
	return value
}

// readText returns a text of the command line; - stands for standard input.
func (p *program) readText(text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	const limit = 1 << 20
	input, err := io.ReadAll(io.LimitReader(p.In, limit+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(input) > limit {
		return "", commandline.UsageError{Err: errors.New("standard input is larger than 1 MiB")}
	}
	return string(input), nil
}
