// Package netaddr finds the address of a client behind proxies, and the network and the site that
// share what one client may use.
package netaddr
