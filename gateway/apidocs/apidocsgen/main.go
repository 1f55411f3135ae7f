// Command apidocsgen renders the pages of the documentation to gateway/apidocs/pages.json.gz, a
// JSON object of the pages by path. It runs in the root of the repository, by `make generate`.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"opsgate/gateway/apidocs/site"
	"opsgate/gateway/openapi"
)

const (
	guides = "gateway/apidocs/guides"
	out    = "gateway/apidocs/pages.json.gz"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apidocsgen:", err)
		os.Exit(1)
	}
}

func run() error {
	pages, err := site.Render(openapi.YAML(), os.DirFS(guides))
	if err != nil {
		return err
	}
	pages["/openapi.json"] = openapi.JSON()
	var b bytes.Buffer
	if err := write(&b, pages); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644) //nolint:gosec // sources are public
}

func write(w io.Writer, pages map[string][]byte) error {
	texts := make(map[string]string, len(pages))
	for path, body := range pages {
		texts[path] = string(body)
	}
	// without a time, so that the same pages give the same bytes
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(zipped)
	encoder.SetEscapeHTML(false)
	return errors.Join(encoder.Encode(texts), zipped.Close())
}
