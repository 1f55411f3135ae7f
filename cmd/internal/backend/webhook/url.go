package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const maxURL = 2000

// domainName matches names of at least two labels. The last label begins with a letter: in every form of an IPv4 address that a resolver
// may accept, such as 127.1, 2130706433 or 0x7f.1, it begins with a digit.
var domainName = regexp.MustCompile(`(?i)^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

const maxDomainName = 253

// CheckURL returns nil if messages may be sent to the URL, else an error that names the broken rule and does not repeat the URL. The rules
// are in docs/integrate/notifications.md; allowHTTP, for demos, accepts plain HTTP and any host and port, such as
// http://127.0.0.1:3000/hook. The host is not looked up: each connection checks its own address.
func CheckURL(text string, allowHTTP bool) error { return newPolicy(allowHTTP).checkURL(text) }

func (p policy) checkURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("the URL must have at most %d characters", maxURL)
	}
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("the URL must consist of visible ASCII characters")
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("the URL is malformed") // err repeats the URL
	}
	switch {
	case u.Scheme != "https" && !(p.allowHTTP && u.Scheme == "http"):
		return errors.New("the URL must begin with https://")
	case u.User != nil:
		return errors.New("the URL must have no user name or password")
	case strings.Contains(text, "#"):
		return errors.New("the URL must have no fragment")
	case u.Hostname() == "" || port(u) == 0:
		return errors.New("the URL must have a host, and a valid port if any")
	case p.allowHTTP:
		return nil
	case len(u.Hostname()) > maxDomainName || !domainName.MatchString(u.Hostname()):
		return errors.New("the host must be a full domain name, not an address")
	case !slices.Contains(p.ports, port(u)):
		return errors.New("the port must be 443, which is the default")
	}
	return nil
}

// Normalise returns a valid URL with scheme and host in lower case and without the default port. The rest is left as it is: receivers may
// distinguish all of it.
func Normalise(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	scheme, host := strings.ToLower(scheme), strings.ToLower(rest[:end])
	host = strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[scheme])
	return scheme + "://" + host + rest[end:]
}

// Shown returns the scheme and the host of a URL: paths and queries of webhooks contain secrets.
func Shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// port returns the port that the URL addresses; 0 if it is not a decimal number of the range without leading zeros.
func port(u *url.URL) uint16 {
	if u.Port() == "" {
		return map[string]uint16{"https": 443, "http": 80}[u.Scheme]
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != u.Port() {
		return 0
	}
	return uint16(n)
}
