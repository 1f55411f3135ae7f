package authn

import "strings"

const (
	bearerScheme = "Bearer"
	// maxCredential is much longer than any token. It limits the bytes that isB64Token reads.
	maxCredential = 256
)

// BearerToken returns the token from the values of the Authorization header.
//
// The token is "" if there is no header or more than one, the scheme is not Bearer (upper or lower
// case), or the token is longer than 256 characters or has one that RFC 6750 does not allow. Sent
// reports whether a bearer token was sent, valid or not. A 401 has error="invalid_token" only if
// sent is true (RFC 6750, section 3).
func BearerToken(authorization []string) (token string, sent bool) {
	for _, value := range authorization {
		var bearer bool
		token, bearer = cutBearer(value)
		sent = sent || bearer
	}
	if len(authorization) != 1 || len(token) > maxCredential || !isB64Token(token) {
		return "", sent
	}
	return token, sent
}

// cutBearer returns the credentials if the scheme is Bearer and they are not empty.
func cutBearer(value string) (token string, ok bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, bearerScheme) || strings.Trim(rest, " \t") == "" {
		return "", false
	}
	return strings.Trim(rest, " "), true // RFC 6750 allows no tab, so it stays and makes the token invalid
}

// isB64Token reports whether s is a b64token of RFC 6750, section 2.1.
func isB64Token(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if c := body[i]; !isBase62(c) && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return body != ""
}
