package config_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

// configPath is the import path of package config.
var configPath = reflect.TypeFor[config.Config]().PkgPath()

// Every key has an effect: code of the gateway outside of package config reads its field and those
// of the mappings around it, itself or by a function of package config. The subcommands, which only
// report, do not count, other than serve. The test does not find that one of several uses of a key
// is missing.
func TestEveryKeyIsRead(t *testing.T) {
	p, used := loadProgram(t), make(map[string]bool)
	for _, l := range p.listed {
		if !slices.Contains(l.Imports, configPath) {
			continue
		}
		files, info, err := p.check(l)
		testkit.Must(t, err)
		for _, file := range files {
			if path := p.files.Position(file.Pos()).Filename; !strings.HasSuffix(l.ImportPath, "/command") || filepath.Base(path) == "serve.go" {
				p.uses(info, file, used)
			}
		}
	}
	p.addUsesOfFunctions(t, used)
	keys := 0
	var walk func(structure reflect.Type, key string)
	walk = func(structure reflect.Type, key string) {
		for f := range structure.Fields() {
			name := strings.TrimPrefix(key+"."+f.Tag.Get("yaml"), ".")
			keys++
			if !used[structure.Name()+"."+f.Name] {
				t.Errorf("%s has no effect: the gateway does not read %s of config.%s", name, f.Name, structure.Name())
			}
			inner := f.Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner, name = inner.Elem(), name+"[]"
			}
			if inner.Kind() == reflect.Struct && inner.PkgPath() == configPath && inner.Field(0).Tag.Get("yaml") != "" {
				walk(inner, name)
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
	if keys < 100 {
		t.Errorf("only %d keys were checked", keys)
	}
}

// A program is the packages that the gateway links, as source. It imports those of this module and
// of Go; nothing of config passes through the others, whose errors are ignored. Compiling them
// would take minutes.
type program struct {
	listed  map[string]listed
	files   *token.FileSet
	checked map[string]*types.Package
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir  string
	Standard         bool
	GoFiles, Imports []string
}

func loadProgram(t *testing.T) *program {
	t.Helper()
	const fields = "-json=ImportPath,Dir,Standard,GoFiles,Imports"
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", fields, "opsgate/cmd/opsgate")
	command.Stderr = os.Stderr
	output, err := command.Output()
	testkit.Must(t, err)
	p := &program{listed: make(map[string]listed), files: token.NewFileSet(), checked: make(map[string]*types.Package)}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); decoder.More(); {
		var l listed
		testkit.Must(t, decoder.Decode(&l))
		p.listed[l.ImportPath] = l
	}
	return p
}

// Import implements types.Importer.
func (p *program) Import(path string) (*types.Package, error) {
	l := p.listed[path]
	switch {
	case p.checked[path] != nil:
		return p.checked[path], nil
	case path == "unsafe":
		return types.Unsafe, nil
	case !l.Standard && !strings.HasPrefix(path, "opsgate/"):
		return nil, errors.New("not a package of this module")
	}
	_, _, err := p.check(l)
	return p.checked[path], err
}

// check returns the files of a package with their types.
func (p *program) check(l listed) (files []*ast.File, info *types.Info, err error) {
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(p.files, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	info = &types.Info{Selections: make(map[*ast.SelectorExpr]*types.Selection), Uses: make(map[*ast.Ident]types.Object)}
	settings := types.Config{Importer: p, Error: func(error) {}}
	checked, _ := settings.Check(l.ImportPath, p.files, files, info)
	if p.checked[l.ImportPath] == nil {
		p.checked[l.ImportPath] = checked
	}
	return files, info, nil
}

// uses adds what a part of a file uses of package config: functions as "config.Load", methods and
// fields that are read as "HTTP.BodyTimeout".
func (p *program) uses(info *types.Info, part ast.Node, used map[string]bool) {
	assigned := make(map[ast.Expr]bool)
	ast.Inspect(part, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				assigned[left] = n.Tok == token.ASSIGN
			}
		case *ast.SelectorExpr:
			if selection := info.Selections[n]; selection != nil {
				addSelection(selection, assigned[n], used)
			}
		case *ast.Ident:
			if f, ok := info.Uses[n].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == configPath && f.Signature().Recv() == nil {
				used["config."+f.Name()] = true
			}
		}
		return true
	})
}

// addSelection adds the fields on the way to a field or method, and the latter unless it is
// assigned.
func addSelection(s *types.Selection, assigned bool, used map[string]bool) {
	at := s.Recv()
	for i, index := range s.Index() {
		if pointer, ok := at.Underlying().(*types.Pointer); ok {
			at = pointer.Elem()
		}
		named, _ := types.Unalias(at).(*types.Named)
		name := s.Obj().Name()
		last := i == len(s.Index())-1
		if structure, ok := at.Underlying().(*types.Struct); ok && (!last || s.Kind() == types.FieldVal) {
			at, name = structure.Field(index).Type(), structure.Field(index).Name()
		}
		if named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == configPath && !(last && assigned) {
			used[named.Obj().Name()+"."+name] = true
		}
	}
}

// derived are functions of package config whose reads do not give a key its effect: Load checks all
// keys, and the window of breakers follows from timeouts that need an effect of their own.
var derived = []string{"Load", "BreakerWindow"}

// addUsesOfFunctions adds what the used functions of package config use.
func (p *program) addUsesOfFunctions(t *testing.T, used map[string]bool) {
	t.Helper()
	files, info, err := p.check(p.listed[configPath])
	testkit.Must(t, err)
	for before := -1; before != len(used); {
		before = len(used)
		for _, file := range files {
			for _, declaration := range file.Decls {
				f, ok := declaration.(*ast.FuncDecl)
				if ok && !slices.Contains(derived, f.Name.Name) && used[receiver(f)+"."+f.Name.Name] {
					p.uses(info, f, used)
				}
			}
		}
	}
}

// receiver returns the name of the type of a method, or config for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return "config"
	}
	switch t := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return t.X.(*ast.Ident).Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}
