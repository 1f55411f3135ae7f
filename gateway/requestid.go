package gateway

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"opsgate/gateway/decode"
)

// maxRequestIDLen is the maximal length of a client's request id (docs/integrate/contract.md, "Caching").
const maxRequestIDLen = 128

// requestID returns the client's id if it sent exactly one valid id, else a new one. An id that contains a token is not valid, because ids
// are logged, traced and sent to services.
func requestID(sent []string, tokenPrefix string, now time.Time) string {
	if len(sent) == 1 && decode.VisibleASCII(sent[0], maxRequestIDLen) && (tokenPrefix == "" || !strings.Contains(sent[0], tokenPrefix)) {
		return sent[0]
	}
	return newRequestID(now)
}

// newRequestID returns a UUIDv7 (RFC 9562, section 5.7). It is not a secret, so its random bits come from the runtime's per-thread
// generator: google/uuid takes a lock that all requests would share.
func newRequestID(now time.Time) string {
	const version, variant = 0x7 << 12, 0x2 << 62
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|version|rand.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], variant|rand.Uint64()>>2)
	return id.String()
}
