package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// literal is a string in the code.
type literal struct {
	value, place string
	// constant is the name of the constant that has this value. kind is the declared type of the constant. Both can be empty.
	constant, kind string
	// call is the name of the function that gets this string as an argument. argument is the number of that argument.
	call     string
	argument int
}

// file is a parsed file.
type file struct {
	tree *ast.File
	set  *token.FileSet
	path string
}

// literals returns the strings in the Go files of some folders of a repository. It skips tests, generated files and import paths. It reads the
// catalogue only if a folder is "internal", because the strings of the catalogue belong to the operators that the catalogue starts.
func literals(root string, folders ...string) ([]literal, error) {
	var found []literal
	left, err := thirdParty(root)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		left[filepath.Join(root, "internal", "driver", "catalogue")] = folder != "internal"
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, entry fs.DirEntry, err error) error {
			switch name := entry.Name(); {
			case err != nil:
				return err
			case entry.IsDir() && (name == "testdata" || name == "testing" || left[path]):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_"):
				return nil
			}
			one := file{set: token.NewFileSet(), path: path}
			if one.tree, err = parser.ParseFile(one.set, path, nil, parser.SkipObjectResolution); err != nil {
				return fmt.Errorf("parse: %w", err)
			}
			found = append(found, one.literals(root)...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("strings of %s: %w", folder, err)
		}
	}
	return found, nil
}

// thirdParty returns the folders of drivers that have a package below packages/. The vendors of these drivers document them.
func thirdParty(root string) (map[string]bool, error) {
	packages, err := filepath.Glob(filepath.Join(root, "packages", "*"))
	if err != nil {
		return nil, fmt.Errorf("packages of third-party drivers: %w", err)
	}
	folders := map[string]bool{}
	for _, one := range packages {
		folders[filepath.Join(root, "internal", "driver", filepath.Base(one))] = true
	}
	return folders, nil
}

// literals adds the strings of a file.
func (f file) literals(root string) []literal {
	var found []literal
	seen := map[*ast.BasicLit]bool{}
	add := func(expression ast.Expr, about literal) {
		basic, ok := expression.(*ast.BasicLit)
		if !ok || basic.Kind != token.STRING || seen[basic] {
			return
		}
		seen[basic] = true
		value, err := strconv.Unquote(basic.Value)
		if err != nil {
			return
		}
		relative, err := filepath.Rel(root, f.path)
		if err != nil {
			relative = f.path
		}
		about.value, about.place = value, fmt.Sprintf("%s:%d", filepath.ToSlash(relative), f.set.Position(basic.Pos()).Line)
		found = append(found, about)
	}
	ast.Inspect(f.tree, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.ValueSpec:
			kind, _ := node.Type.(*ast.Ident)
			for i, value := range node.Values {
				about := literal{}
				if i < len(node.Names) {
					about.constant = node.Names[i].Name
				}
				if kind != nil {
					about.kind = kind.Name
				}
				add(value, about)
			}
		case *ast.CallExpr:
			for i, argument := range node.Args {
				add(argument, literal{call: called(node.Fun), argument: i})
			}
		case *ast.BasicLit:
			add(node, literal{})
		}
		return true
	})
	return found
}

// called returns the name of a function, without its package or receiver.
func called(function ast.Expr) string {
	switch function := function.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	}
	return ""
}

// like returns the strings that match a pattern.
func like(found []literal, pattern *regexp.Regexp, and func(literal) bool) names {
	selected := names{}
	for _, one := range found {
		if pattern.MatchString(one.value) && (and == nil || and(one)) && selected[one.value] == "" {
			selected[one.value] = one.place
		}
	}
	return selected
}
