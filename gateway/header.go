package gateway

import "net/http"

// checkHeader refuses a request whose header is larger than may be. net/http refuses one that is larger still before we see it.
func (g *Gateway) checkHeader(r *Request) error {
	if headerSize(r.http()) > g.maxHeaderBytes {
		return headersTooLarge(g.maxHeaderBytes)
	}
	return nil
}

// explainHeader knows the first line alone.
func explainHeader(_ *Question, r *Request) finding { return finding{err: r.gateway.checkHeader(r)} }

// headerSize returns how many bytes a request's first line and its header are over HTTP/1.1.
func headerSize(req *http.Request) int64 {
	const blanks, separator, end = "  ", ": ", "\r\n"
	n := len(req.Method) + len(req.RequestURI) + len(req.Proto) + len(blanks+end)
	n += len("Host"+separator+end) + len(req.Host) // which net/http keeps apart
	for name, values := range req.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(separator+end)
		}
	}
	return int64(n + len(end))
}
