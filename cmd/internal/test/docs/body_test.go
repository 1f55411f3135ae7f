package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// shown is the number of objects of a list in a record.
const shown = 2

// shorten returns a JSON body as a record has it: indented, with the keys in their order, and
// without the objects of a list after the first two.
func shorten(t *testing.T, body []byte) string {
	t.Helper()
	var b strings.Builder
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	testkit.Must(t, writeValue(&b, decoder, ""))
	return b.String()
}

func writeValue(b *strings.Builder, decoder *json.Decoder, indent string) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return writeObject(b, decoder, indent)
	case json.Delim('['):
		return writeList(b, decoder, indent)
	}
	text, err := json.Marshal(token)
	b.Write(text)
	return err
}

func writeObject(b *strings.Builder, decoder *json.Decoder, indent string) error {
	separator := "{\n"
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s%s  %q: ", separator, indent, name)
		if err := writeValue(b, decoder, indent+"  "); err != nil {
			return err
		}
		separator = ",\n"
	}
	b.WriteString("\n" + indent + "}")
	_, err := decoder.Token()
	return err
}

func writeList(b *strings.Builder, decoder *json.Decoder, indent string) error {
	var all []string
	objects := false
	for decoder.More() {
		var element strings.Builder
		if err := writeValue(&element, decoder, indent+"  "); err != nil {
			return err
		}
		all = append(all, element.String())
		objects = strings.HasPrefix(element.String(), "{")
	}
	_, err := decoder.Token()
	if !objects {
		b.WriteString("[" + strings.Join(all, ", ") + "]")
		return err
	}
	more := ""
	if omitted := len(all) - shown; omitted > 0 {
		all = all[:shown]
		more = fmt.Sprintf(",\n%s  … %d more", indent, omitted)
	}
	b.WriteString("[\n" + indent + "  " + strings.Join(all, ",\n"+indent+"  ") + more + "\n" + indent + "]")
	return err
}

// volatile lists what differs between two runs of opsdev: what is random, and what depends on the
// time. Demo data is otherwise the same.
var volatile = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`), `"<time>"`},
	{regexp.MustCompile(`(?m)^ETag: "[0-9a-f]{16}"$`), `ETag: <etag>`},
	{regexp.MustCompile(`(?m)^X-Request-Id: [0-9a-f-]{36}$`), `X-Request-Id: <id>`},
	{regexp.MustCompile(`;r=\d+;t=\d+`), `;r=<n>;t=<n>`},
	{regexp.MustCompile(`cursor=[\w-]+|"nextCursor": "[\w-]+"`), `<cursor>`},
	{regexp.MustCompile(`"(cpuPercent|ramUsedMb|diskUsedGb)": [\d.]+`), `"$1": <number>`},
	{regexp.MustCompile(`… \d+ more`), `… <n> more`},
}

// created matches the id in the response to a POST, which is random.
var created = regexp.MustCompile(`(?m)^  "id": "[0-9a-f-]{36}"`)

// masked returns a record, or a part of it, without what differs between two runs.
func masked(method, record string) string {
	for _, v := range volatile {
		record = v.pattern.ReplaceAllString(record, v.mask)
	}
	if method != "GET" {
		record = created.ReplaceAllString(record, `  "id": <id>`)
	}
	return record
}
