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
// characters that RFC 6750 does not allow, or more than 256 of them. Sent says whether a bearer token came along, be it
// good or bad: the answer to a request with one says error="invalid_token" (RFC 6750, section 3), the answer to one
// without, with another scheme or with an empty token does not.
func BearerToken(authorization []string) (token string, sent bool) {
	for _, value := range authorization {
		var bearer bool
		token, bearer = cutBearer(value)
		sent = sent || bearer
	}
	if len(authorization) != 1 || len(token) > maxCredential || !isToken68(token) {
		return "", sent
	}
	return token, sent
}

// cutBearer returns what follows the scheme Bearer, if that is the scheme and anything follows it.
func cutBearer(value string) (token string, ok bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, bearerScheme) || strings.Trim(rest, " \t") == "" {
		return "", false
	}
	return strings.Trim(rest, " "), true
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
