package apidocs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"golang.org/x/net/html"

	"opsgate/gateway/apidocs/site"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

func TestEveryPageHasItsTypePolicyAndGzip(t *testing.T) {
	types := map[string]string{
		".json": "application/json; charset=utf-8", ".yaml": "application/yaml; charset=utf-8", ".md": typeMarkdown, ".txt": typeText,
		"/": typeHTML, "/api-catalog": typeCatalog, ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	for path, page := range embedded.made() {
		suffix := path[max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '/')):]
		if page.ContentType != types[suffix] || len(page.Body) == 0 {
			t.Errorf("%s: type %q, %d bytes", path, page.ContentType, len(page.Body))
		}
		if slices.Contains([]string{"/", ".css", ".js"}, suffix) && !strings.HasPrefix(page.CSP, "default-src 'none'; script-src 'self'; ") {
			t.Errorf("%s: Content-Security-Policy %q", path, page.CSP)
		}
		for _, exception := range []string{"unsafe-", "*", "http"} {
			if strings.Contains(page.CSP, exception) {
				t.Errorf("%s: the policy has %s", path, exception)
			}
		}
		if body, err := unzip(page.Gzip); err != nil || !bytes.Equal(body, page.Body) {
			t.Errorf("%s: the gzip body differs from the body: %v", path, err)
		}
		if strings.HasSuffix(path, ".json") && !json.Valid(page.Body) {
			t.Errorf("%s is not JSON", path)
		}
	}
}

// The rendered pages are embedded: a change of their sources has no effect without the generator.
func TestPagesAreCurrent(t *testing.T) {
	want, err := site.Render(openapi.YAML(), os.DirFS("guides"))
	testkit.Must(t, err)
	want["/openapi.json"] = openapi.JSON()
	current := New(openapi.PlaceholderURL) // as they are embedded
	for path, body := range want {
		if page, _ := current.Lookup(path); !bytes.Equal(page.Body, body) {
			t.Errorf("%s differs from what its sources are rendered to: run `make generate`", path)
		}
	}
}

// The links of a page are relative or have public_url; calls have a base URL in any case.
func TestPagesHaveThePublicURL(t *testing.T) {
	const public = "https://ops.acme.example"
	published := New(public)
	for path, page := range embedded.made() {
		other, _ := published.Lookup(path)
		body, isForPrograms := string(page.Body), strings.HasPrefix(path, "/openapi.") || path == CatalogPath
		switch {
		case bytes.Contains(other.Body, []byte(openapi.PlaceholderURL)) && path != "/docs/docs.js":
			t.Errorf("%s has the placeholder although public_url is set", path)
		case isForPrograms && strings.Contains(body, openapi.PlaceholderURL):
			t.Errorf("%s has the placeholder, and no script replaces it", path)
		case isForPrograms && !bytes.Contains(other.Body, []byte(public)):
			t.Errorf("%s does not have public_url", path)
		case strings.Contains(body, `href="`+openapi.PlaceholderURL) || strings.Contains(body, "]("+openapi.PlaceholderURL):
			t.Errorf("%s has a link that is not relative", path)
		}
	}
	for base, want := range map[string]string{"": "/", public: public} {
		var document struct{ Servers []struct{ URL string } }
		page, _ := New(base).Lookup("/openapi.json")
		testkit.Must(t, json.Unmarshal(page.Body, &document))
		if len(document.Servers) != 1 || document.Servers[0].URL != want {
			t.Errorf("public_url %q: servers %v", base, document.Servers)
		}
	}
}

func unzip(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func TestOnlyPagesAreFound(t *testing.T) {
	for _, path := range []string{
		"", "/", "/docs", "/docs/index.html", "/docs/../openapi.yaml", "/docs//docs.js", "/openapi", "/docs/guides/", "/docs/guides",
		"/docs/reference/", "/docs/errors", "/docs/try/", "/docs/templates/page.html", "/docs/guides/errors/",
	} {
		if _, ok := embedded.Lookup(path); ok {
			t.Errorf("%q is a page", path)
		}
	}
}

// An element is what the tests read of an element of a page.
type element struct {
	name string
	attr map[string]string
}

func elements(body []byte) []element {
	var found []element
	for tokens := html.NewTokenizer(bytes.NewReader(body)); tokens.Next() != html.ErrorToken; {
		if token := tokens.Token(); token.Type == html.StartTagToken || token.Type == html.SelfClosingTagToken {
			e := element{token.Data, map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Key] = a.Val
			}
			found = append(found, e)
		}
	}
	return found
}

// readable returns the paths of the pages in HTML, in order.
func readable() []string {
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(embedded.made())) {
		if strings.HasSuffix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// An inline script or style would need an exception in the Content-Security-Policy.
func TestPagesHaveNoInlineCode(t *testing.T) {
	for _, path := range readable() {
		for _, e := range elements(embedded.made()[path].Body) {
			if e.name == "style" || e.name == "script" && e.attr["src"] == "" {
				t.Errorf("%s has an inline %s", path, e.name)
			}
			for key, value := range e.attr {
				if key == "style" || strings.HasPrefix(key, "on") || strings.Contains(value, "javascript:") {
					t.Errorf("%s: %s has %s=%q", path, e.name, key, value)
				}
				if key == "src" && !strings.HasPrefix(value, "/docs/") {
					t.Errorf("%s loads %s", path, value)
				}
			}
		}
	}
}

// ids returns the ids of a page.
func ids(t *testing.T, path string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, e := range elements(embedded.made()[path].Body) {
		if id := e.attr["id"]; id != "" {
			if found[id] {
				t.Errorf("%s has the id %s twice", path, id)
			}
			found[id] = true
		}
	}
	return found
}

// markdownLink matches the address of a link in Markdown.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksResolve(t *testing.T) {
	all := map[string]map[string]bool{}
	for _, path := range readable() {
		all[path] = ids(t, path)
	}
	checked := 0
	check := func(from, link string) {
		checked++
		u, err := url.Parse(link)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			return
		}
		if u.Host != "" {
			return
		}
		target := u.Path
		if target == "" {
			target = from
		}
		page, ok := embedded.made()[target]
		switch {
		case !ok:
			t.Errorf("%s links to %s, which is not a page", from, link)
		case u.Fragment != "" && page.ContentType == typeHTML && !all[target][u.Fragment]:
			t.Errorf("%s links to %s, and there is no such place", from, link)
		}
	}
	for path, page := range embedded.made() {
		switch page.ContentType {
		case typeHTML:
			for _, e := range elements(page.Body) {
				if link := e.attr["href"]; e.name == "a" {
					check(path, link)
				}
			}
		case typeMarkdown, typeText:
			for _, match := range markdownLink.FindAllSubmatch(page.Body, -1) {
				if link := string(match[1]); strings.HasPrefix(link, "/") {
					check(path, link)
				}
			}
		}
	}
	for _, e := range index(t) {
		check("/docs/search.json", e.URL)
	}
	if checked < 2000 {
		t.Errorf("only %d links were found", checked)
	}
}

// An entry is what the tests read of an entry of the search index.
type entry struct {
	URL string `json:"u"`
}

func index(t *testing.T) (entries []entry) {
	t.Helper()
	testkit.Must(t, json.Unmarshal(embedded.made()["/docs/search.json"].Body, &entries))
	return entries
}

// published returns the OpenAPI document, decoded by another package than the one that the pages
// are made with.
func published(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	testkit.Must(t, err)
	return document
}

// properties returns the paths of all properties of a schema, for example items.id.
func properties(schema *openapi3.Schema) (paths []string) {
	if schema.Items != nil {
		return properties(schema.Items.Value)
	}
	for name, property := range schema.Properties {
		paths = append(paths, name)
		for _, inner := range properties(property.Value) {
			paths = append(paths, name+"."+inner)
		}
	}
	return paths
}

// answered returns the properties of the response 200 of an operation.
func answered(o *openapi3.Operation) []string {
	return properties(o.Responses.Status(200).Value.Content.Get("application/json").Schema.Value)
}

func TestEveryOperationFieldAndErrorCodeHasAnAnchor(t *testing.T) {
	document := published(t)
	anchors := map[string]bool{}
	for _, path := range readable() {
		if strings.HasPrefix(path, "/docs/reference/") {
			maps.Copy(anchors, ids(t, path))
		}
	}
	var want []string
	for _, item := range document.Paths.Map() {
		for _, o := range item.Operations() {
			want = append(want, o.OperationID)
			for _, p := range slices.Concat(item.Parameters, o.Parameters) {
				want = append(want, o.OperationID+"."+p.Value.Name)
			}
			if o.RequestBody != nil {
				for _, name := range properties(o.RequestBody.Value.Content.Get("application/json").Schema.Value) {
					want = append(want, o.OperationID+"."+name)
				}
			}
			for _, name := range answered(o) {
				want = append(want, o.OperationID+".response."+name)
			}
		}
	}
	for _, id := range want {
		if !anchors[id] {
			t.Errorf("no page of the reference has the anchor %s", id)
		}
	}
	if len(want) < 150 {
		t.Errorf("the document has only %d operations and fields", len(want))
	}
	schemas := ids(t, "/docs/schemas/")
	for name, schema := range document.Components.Schemas {
		for _, property := range properties(schema.Value) {
			if !schemas[name+"."+property] {
				t.Errorf("the page of schemas has no anchor %s.%s", name, property)
			}
		}
	}
	errors := ids(t, "/docs/errors/")
	codes, _ := document.Components.Schemas["ErrorBody"].Value.Properties["code"].Value.Extensions["x-known-values"].([]any)
	for _, code := range codes {
		if name, _ := code.(string); !errors[name] {
			t.Errorf("the page of errors has no anchor %s", code)
		}
	}
	if len(codes) < 10 {
		t.Errorf("the document has only %d error codes", len(codes))
	}
}

func TestMarkdownFormsHaveWhatThePagesHave(t *testing.T) {
	var reference strings.Builder
	for _, path := range readable() {
		name := strings.TrimSuffix(path, "/") + ".md"
		if path == "/docs/" {
			name = "/docs/index.md"
		}
		form, ok := embedded.Lookup(name)
		if !ok {
			t.Errorf("%s has no Markdown form", path)
			continue
		}
		if !bytes.HasPrefix(form.Body, []byte("# ")) || bytes.Contains(form.Body, []byte("<no value>")) || bytes.Contains(form.Body, []byte("&#")) {
			t.Errorf("%s begins with %.40q", name, form.Body)
		}
		if llms, _ := embedded.Lookup("/llms.txt"); !bytes.Contains(llms.Body, []byte("("+name+"): ")) {
			t.Errorf("llms.txt does not list %s", name)
		}
		if full, _ := embedded.Lookup("/llms-full.txt"); !bytes.Contains(full.Body, form.Body) {
			t.Errorf("llms-full.txt does not contain %s", name)
		}
		if strings.HasPrefix(path, "/docs/reference/") {
			reference.Write(form.Body)
		}
	}
	for path, item := range published(t).Paths.Map() {
		for method, o := range item.Operations() {
			id := o.OperationID
			_, section, found := strings.Cut(reference.String(), "`"+method+" "+path+"` (`"+id+"`)\n")
			section, _, _ = strings.Cut(section, "\n## ")
			if !found || !strings.Contains(section, "HTTP/1.1 200 OK") || !strings.Contains(section, "curl ") {
				t.Errorf("the Markdown form has no section, sample or response of %s", id)
			}
			for name := range o.Responses.Status(200).Value.Headers {
				if !strings.Contains(section, "\n- `"+name+"`: ") {
					t.Errorf("the section of %s has no header %s", id, name)
				}
			}
			for _, name := range answered(o) {
				if last := name[strings.LastIndexByte(name, '.')+1:]; !strings.Contains(section, "- `"+last+"`: ") {
					t.Errorf("the section of %s has no field %s", id, name)
				}
			}
		}
	}
}

// openapigen adds the known values to descriptions, and the pages list them.
func TestKnownValuesAreListedOnce(t *testing.T) {
	listed := 0
	for _, path := range readable() {
		if strings.HasPrefix(path, "/docs/reference/") || path == "/docs/schemas/" {
			body := embedded.made()[path].Body
			listed += bytes.Count(body, []byte("Known values, to which others may be added:"))
			if bytes.Contains(body, []byte("Known values: ")) {
				t.Errorf("%s lists known values twice", path)
			}
		}
	}
	if listed < 10 {
		t.Errorf("known values are listed at %d places", listed)
	}
}

// BenchmarkMakePages measures what the first request of a page waits for.
func BenchmarkMakePages(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := makePages(""); err != nil {
			b.Fatal(err)
		}
	}
}
