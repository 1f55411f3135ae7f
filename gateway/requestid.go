package gateway

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"
)

// maxRequestIDLen is the longest id that a client may give its request (decisions, "Errors").
const maxRequestIDLen = 128

// requestID returns the client's id where it gave exactly one that can stand in a header and a log, and else a new one. One with a
// token in it cannot: it would be in the log, in traces and with the services.
func requestID(sent []string, liveTokens string, now time.Time) string {
	if len(sent) == 1 && visibleASCII(sent[0], maxRequestIDLen) && (liveTokens == "" || !strings.Contains(sent[0], liveTokens)) {
		return sent[0]
	}
	return newRequestID(now)
}

// newRequestID returns a UUIDv7 (RFC 9562, section 5.7). It tells requests apart and guards nothing, so its random bits come
// from the runtime's per-thread generator: google/uuid takes a lock that all requests would share.
func newRequestID(now time.Time) string {
	var id [16]byte
	millis := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(millis >> (40 - 8*i))
	}
	high, low := rand.Uint64(), rand.Uint64()
	id[6] = 0x70 | byte(high>>8)&0x0f
	id[7] = byte(high)
	id[8] = 0x80 | byte(low>>56)&0x3f
	for i := 1; i < 8; i++ {
		id[8+i] = byte(low >> (56 - 8*i))
	}
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
