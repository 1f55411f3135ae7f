package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"

	"opsgate/gateway/decode"
)

// maxRequestIDLen is the maximum length of a client's request id (docs/integrate/contract.md,
// "Caching").
const maxRequestIDLen = 128

// requestID returns the client's id if the client sent exactly one valid id, and otherwise a new
// id. An id that contains a token is not valid, because ids are logged, traced and sent to
// services.
func requestID(sent []string, tokenPrefix string, now time.Time) string {
	if len(sent) == 1 && decode.VisibleASCII(sent[0], maxRequestIDLen) &&
		(tokenPrefix == "" || !strings.Contains(sent[0], tokenPrefix)) {
		return sent[0]
	}
	return newRequestID(now)
}

// newRequestID returns a UUIDv7 (RFC 9562, section 5.7). The id is not a secret, so its random bits
// come from the runtime's per-thread generator. google/uuid would take a lock that all requests
// share.
func newRequestID(now time.Time) string {
	const version, variant = 0x7 << 12, 0x2 << 62
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|version|rand.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], variant|rand.Uint64()>>2)
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
