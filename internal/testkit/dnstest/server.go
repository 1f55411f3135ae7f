package dnstest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"opsgate/internal/testkit"
)

// An Answer returns the addresses of a name, of any kind, and the code of the response. A lookup
// asks once for each kind. A nil Answer is no response.
type Answer func(name string, kind dnsmessage.Type) ([]string, dnsmessage.RCode)

// Addresses is the Answer that each name has these addresses, or none.
func Addresses(addresses ...string) Answer {
	return func(string, dnsmessage.Type) ([]string, dnsmessage.RCode) { return addresses, dnsmessage.RCodeSuccess }
}

// Failure is the Answer to each query with an error.
func Failure(code dnsmessage.RCode) Answer {
	return func(string, dnsmessage.Type) ([]string, dnsmessage.RCode) { return nil, code }
}

// A Server is a DNS server on a UDP socket.
type Server struct {
	Address string
	Lookups atomic.Int64 // received queries for IPv4 addresses

	answer atomic.Pointer[Answer]
}

// Start starts a Server. It ends with the test.
func Start(t testing.TB, answer Answer) *Server {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &Server{Address: conn.LocalAddr().String()}
	s.Set(answer)
	var running sync.WaitGroup
	running.Go(func() { s.serve(t, conn) })
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	return s
}

// Set replaces the Answer.
func (s *Server) Set(answer Answer) { s.answer.Store(&answer) }

func (s *Server) serve(t testing.TB, conn net.PacketConn) {
	for buffer := make([]byte, 1024); ; {
		n, client, err := conn.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		if response, err := s.respond(buffer[:n]); err != nil {
			t.Errorf("respond to a DNS query: %v", err)
		} else if response != nil {
			_, _ = conn.WriteTo(response, client)
		}
	}
}

// respond returns the response to a query; nil for none.
func (s *Server) respond(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	if len(m.Questions) == 0 {
		return nil, errors.New("a query without a question")
	}
	q := m.Questions[0]
	if q.Type == dnsmessage.TypeA {
		s.Lookups.Add(1)
	}
	answer := *s.answer.Load()
	if answer == nil {
		return nil, nil
	}
	addresses, code := answer(q.Name.String(), q.Type)
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true, RCode: code}
	m.Additionals = nil
	for _, address := range addresses {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		switch addr := netip.MustParseAddr(address); {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return m.Pack()
}
