package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

const (
	httpsPort     = 443
	maxURL        = 2000
	maxDomainName = 253
)

// domainName matches names of at least two labels. The last label begins with a letter: in every
// form of an IPv4 address that a resolver may accept, such as 127.1, 2130706433 or 0x7f.1, it
// begins with a digit.
var domainName = regexp.MustCompile(`(?i)^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckURL returns nil if messages may be sent to the URL, else an error that names the broken rule
// and does not repeat the URL. The rules are in docs/integrate/notifications.md; allowHTTP, for
// demos, accepts plain HTTP and any host and port, such as http://127.0.0.1:3000/hook. The host is
// not looked up: each connection checks its own address.
func CheckURL(text string, allowHTTP bool) error { return Options{AllowHTTP: allowHTTP}.checkURL(text) }

func (o Options) checkURL(text string) error {
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
	case u.Scheme != "https" && !(o.AllowHTTP && u.Scheme == "http"):
		return errors.New("the URL must begin with https://")
	case u.User != nil:
		return errors.New("the URL must have no user name or password")
	case strings.Contains(text, "#"):
		return errors.New("the URL must have no fragment")
	case u.Hostname() == "":
		return errors.New("the URL must have a host")
	case o.AllowHTTP:
		return nil
	case len(u.Hostname()) > maxDomainName || !domainName.MatchString(u.Hostname()):
		return errors.New("the host must be a full domain name, not an address")
	case u.Port() != "" &&
		!slices.ContainsFunc(o.ports(), func(p uint16) bool { return u.Port() == strconv.Itoa(int(p)) }):
		return errors.New("the port must be 443, which is the default")
	}
	return nil
}

func (o Options) ports() []uint16 { return append([]uint16{httpsPort}, o.inTests.ports...) }

// guard is the Control function of a [net.Dialer]. It is called with the address of each
// connection, after the name is looked up, and refuses what is not a public unicast address. So a
// name that is looked up again cannot lead anywhere else.
func (o Options) guard() func(network, address string, _ syscall.RawConn) error {
	azureHost := netip.MustParsePrefix("168.63.129.16/32") // its metadata service; IANA does not list it as special
	guardian := ssrf.New(ssrf.WithPorts(o.ports()...), ssrf.WithAllowedV4Prefixes(o.inTests.allowed...),
		ssrf.WithDeniedV4Prefixes(azureHost))
	return func(network, address string, c syscall.RawConn) error {
		if guardian.Safe(network, address, c) != nil {
			return &addressError{address}
		}
		return nil
	}
}

// An addressError is the failure to connect to an address that is not allowed.
type addressError struct{ address string }

func (e *addressError) Error() string { return fmt.Sprintf("address %s is not allowed", e.address) }

// Normalise returns a valid URL with scheme and host in lower case and without the default port.
// The rest is left as it is: receivers may distinguish all of it.
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
