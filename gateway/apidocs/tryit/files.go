package tryit

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"

	"github.com/swaggest/swgui/v5/static"
)

// A File is one file below /docs/try/.
type File struct {
	Path        string // of the URL
	ContentType string
	CSP         string // Content-Security-Policy
	Body        []byte
	Gzip        []byte // Body compressed; nil for small files
}

// csp allows the page to load scripts and styles from its own host and to call the API there. The style sheet of Swagger UI has icons in
// data: URLs.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	folder     = "/docs/try/"
	css        = "text/css; charset=utf-8"
	javaScript = "text/javascript; charset=utf-8"
)

//go:embed index.html try.css try.js
var ownFiles embed.FS

// Files returns the files of the page.
func Files() ([]File, error) {
	var files []File
	for _, f := range []struct {
		path, contentType string
		files             fs.FS
		name              string
	}{
		{"", "text/html; charset=utf-8", ownFiles, "index.html"},
		{"try.css", css, ownFiles, "try.css"},
		{"try.js", javaScript, ownFiles, "try.js"},
		{"favicon-32x32.png", "image/png", static.FS, "favicon-32x32.png"},
	} {
		body, err := fs.ReadFile(f.files, f.name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.name, err)
		}
		files = append(files, File{Path: folder + f.path, ContentType: f.contentType, CSP: csp, Body: body})
	}
	// The files of Swagger UI are embedded compressed.
	for name, contentType := range map[string]string{"swagger-ui.css": css, "swagger-ui-bundle.js": javaScript} {
		zipped, err := static.FS.ReadFile(name + ".gz")
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		body, err := unzip(zipped)
		if err != nil {
			return nil, fmt.Errorf("decompressing %s: %w", name, err)
		}
		files = append(files, File{Path: folder + name, ContentType: contentType, CSP: csp, Body: body, Gzip: zipped})
	}
	return files, nil
}

func unzip(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
