package chaos

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func host(t *testing.T, address string) string {
	t.Helper()
	host, _ := split(t, address)
	return host
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port := split(t, address)
	return port
}

func split(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	return host, port
}

// answerQuestion answers a DNS query for A records with the addresses, and other queries with no records.
func answerQuestion(message []byte, addresses []string) ([]byte, error) {
	var query dnsmessage.Message
	if err := query.Unpack(message); err != nil {
		return nil, err
	}
	response := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: query.Questions,
	}
	for _, q := range query.Questions {
		if q.Type != dnsmessage.TypeA {
			continue
		}
		for _, address := range addresses {
			addr, err := netip.ParseAddr(address)
			if err != nil {
				return nil, err
			}
			response.Answers = append(response.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: addr.As4()},
			})
		}
	}
	return response.Pack()
}
