package console_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin/console"
)

// literalKeys returns the beginnings of the keys of all findings in the package: the string literals that the field Key starts with.
func literalKeys(t *testing.T) (keys []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	testkit.Must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			pair, _ := n.(*ast.KeyValueExpr)
			if pair == nil {
				return true
			}
			if field, ok := pair.Key.(*ast.Ident); !ok || field.Name != "Key" {
				return true
			}
			value := pair.Value
			for sum, ok := value.(*ast.BinaryExpr); ok; sum, ok = value.(*ast.BinaryExpr) {
				value = sum.X
			}
			literal, ok := value.(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s: a key does not begin with a literal", name)
			}
			key, err := strconv.Unquote(literal.Value)
			testkit.Must(t, err)
			keys = append(keys, key)
			return true
		})
	}
	return keys
}

// Each kind of finding has advice that fits into a line, and no advice is left of a kind that does not exist.
func TestEachKindOfFindingHasAdvice(t *testing.T) {
	const longest = 110 // characters
	keys, advices := literalKeys(t), console.Advices()
	if len(keys) < 10 {
		t.Fatalf("the source has only %q", keys)
	}
	advised := func(key, kind string) bool { // a key may end within the name of its kind, as gateways: does
		return strings.HasPrefix(key+":", kind+":") || strings.HasSuffix(key, ":") && strings.HasPrefix(kind, key)
	}
	kinds := slices.Sorted(maps.Keys(advices))
	for _, key := range keys {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return advised(key, kind) }) {
			t.Errorf("findings %q have no advice", key)
		}
	}
	for kind, a := range advices {
		if !slices.ContainsFunc(keys, func(key string) bool { return advised(key, kind) }) {
			t.Errorf("no finding is %q", kind)
		}
		if kind != "certificate" && slices.Contains(a[:], "") { // the impact and the deadline of a certificate depend on its key
			t.Errorf("%s lacks a line: %q", kind, a)
		}
		for _, line := range a {
			if len(line) > longest || strings.Contains(line, "\n") {
				t.Errorf("%s: not a line: %q", kind, line)
			}
		}
	}
}

// The paths of each service are those of the route table.
func TestImpactNamesThePathsOfAService(t *testing.T) {
	g := start(t, "")
	_, body := g.get(t, g.api+"/openapi.json", "")
	var document struct{ Paths map[string]json.RawMessage }
	testkit.Must(t, json.Unmarshal([]byte(body), &document))
	named := console.ServicePaths()
	checked := make(map[string]bool)
	for path := range document.Paths {
		path = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, teamID)
		var x struct{ Route *struct{ Service string } }
		_, body := g.get(t, g.admin+"/admin/explain?method=GET&token_id="+tokenID+"&path="+path, "")
		testkit.Must(t, json.Unmarshal([]byte(body), &x))
		for service, paths := range named {
			begins := slices.ContainsFunc(strings.Split(paths, ", "), func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
			if needed := x.Route != nil && x.Route.Service == service; x.Route != nil && begins != needed {
				t.Errorf("%s needs %s: %t, named: %t", path, service, needed, begins)
			} else if needed {
				checked[service] = true
			}
		}
	}
	if len(checked) != 4 {
		t.Errorf("only %v were checked", checked)
	}
}
