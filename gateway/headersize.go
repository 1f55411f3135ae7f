package gateway

import "net/http"

// checkHeader rejects a request whose header is larger than the limit. net/http has a higher limit.
func (g *Gateway) checkHeader(r *Request) error {
	if headerSize(r.http()) > g.options.MaxHeaderBytes {
		return headersTooLarge(g.options.MaxHeaderBytes)
	}
	return nil
}

// headerSize returns the size in bytes of the request line and the header in the form of HTTP/1.1.
func headerSize(req *http.Request) int64 {
	const spaces, separator, lineEnd = "  ", ": ", "\r\n"
	n := len(req.Method) + len(req.RequestURI) + len(req.Proto) + len(spaces+lineEnd)
	n += len("Host"+separator+lineEnd) + len(req.Host) // net/http removes Host from the header
	for name, values := range req.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(separator+lineEnd)
		}
	}
	return int64(n + len(lineEnd))
}
