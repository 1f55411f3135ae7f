package authn

import "strings"

const (
	bearerScheme = "Bearer"
	// maxCredential is far beyond any token of ours and short enough that nobody makes us hash a header of a megabyte.
	maxCredential = 256
)

// BearerToken reads the token from the values of the Authorization header, as net/http has them.
//
// The token is "" where the caller cannot be told from it: no header, two of them, a scheme other than Bearer (in any case),
// characters that RFC 6750 does not allow, or more than 256 of them. Sent says whether any credential came along, be it
// good or bad: the answer to a request with one says error="invalid_token" (RFC 6750, section 3), the answer to one
// without does not.
func BearerToken(authorization []string) (token string, sent bool) {
	for _, value := range authorization {
		sent = sent || strings.Trim(value, " \t") != ""
	}
	if len(authorization) != 1 {
		return "", sent
	}
	scheme, rest, found := strings.Cut(authorization[0], " ")
	if !found || !strings.EqualFold(scheme, bearerScheme) {
		return "", sent
	}
	token = strings.Trim(rest, " ")
	if len(token) > maxCredential || !isToken68(token) {
		return "", sent
	}
	return token, sent
}

// isToken68 tells whether s is the b64token of RFC 6750, section 2.1.
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if c := body[i]; !isBase62(c) && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return body != ""
}
