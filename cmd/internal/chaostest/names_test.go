package chaostest

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
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// serveNames runs a name server to which every name has the same IPv4 addresses, and returns its own address.
func serveNames(t *testing.T, addresses []string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buffer := make([]byte, 512); ; {
			n, peer, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := answerQuestion(buffer[:n], addresses); err == nil {
				_, _ = conn.WriteTo(answer, peer) // who asked asks again
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return conn.LocalAddr().String()
}

// answerQuestion answers a question for addresses; to any other there is no answer, and no error.
func answerQuestion(message []byte, addresses []string) ([]byte, error) {
	var query dnsmessage.Message
	if err := query.Unpack(message); err != nil {
		return nil, err
	}
	answer := dnsmessage.Message{
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
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: addr.As4()},
			})
		}
	}
	return answer.Pack()
}
