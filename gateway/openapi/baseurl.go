package openapi

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// PlaceholderURL is the base URL in the embedded pages. static/docs.js in package apidocs has it
// too.
const PlaceholderURL = "https://api.example.com"

var errNotBase = errors.New("must be a base URL like https://api.example.com or http://localhost:8080: no path, no " +
	"query, no user")

// CheckBaseURL returns an error if a URL is not a base URL. The error text is to follow the name of
// the setting.
func CheckBaseURL(url string) error {
	host, ok := strings.CutPrefix(url, "https://")
	if !ok {
		host, ok = strings.CutPrefix(url, "http://")
	}
	if !ok || !validHost(host) {
		return errNotBase
	}
	return nil
}

// maxHost bounds the length of a name and its port.
const maxHost = 255

var hostPort = regexp.MustCompile(`^(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{1,5}))?$`)

// validHost reports whether a text is a name or an address, with a port or without.
func validHost(text string) bool {
	if len(text) > maxHost {
		return false
	}
	match := hostPort.FindStringSubmatch(text)
	if match == nil {
		return false
	}
	if address := match[1]; address != "" {
		if parsed, err := netip.ParseAddr(address); err != nil || !parsed.Is6() {
			return false
		}
	}
	_, err := strconv.ParseUint(match[2], 10, 16)
	return match[2] == "" || err == nil
}
