package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

const driverImports = "github.com/csi-operators/csi-operators/internal/driver/"

// source is a Go file that has a list of drivers.
type source struct {
	name string
	text []byte
	set  *token.FileSet
	file *ast.File
	// list is the first non-empty list in the function.
	list *ast.CompositeLit
}

// read parses a file, and finds the list in the named function.
func read(name string, text []byte, function string) (source, error) {
	s := source{name: name, text: text, set: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.set, name, text, parser.SkipObjectResolution); err != nil {
		return s, fmt.Errorf("parse: %w", err)
	}
	for _, declared := range s.file.Decls {
		found, isFunction := declared.(*ast.FuncDecl)
		if !isFunction || found.Name.Name != function {
			continue
		}
		ast.Inspect(found, func(node ast.Node) bool {
			list, isList := node.(*ast.CompositeLit)
			if isList && len(list.Elts) > 0 && s.list == nil {
				s.list = list
			}
			return s.list == nil
		})
	}
	if s.list == nil {
		return s, fmt.Errorf("%s: there is no function %s with a list to add the driver to", name, function)
	}
	return s, nil
}

// uses reports whether the file already uses an identifier.
func (s source) uses(word string) bool {
	found := false
	ast.Inspect(s.file, func(node ast.Node) bool {
		identifier, isIdentifier := node.(*ast.Ident)
		found = found || (isIdentifier && identifier.Name == word)
		return !found
	})
	return found
}

// inspect visits all syntax nodes of a Go file.
func inspect(name string, text []byte, visit func(ast.Node) bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	ast.Inspect(file, visit)
	return nil
}

// add returns the text of the file after two changes. The list of drivers has the new lines at its end, and the imports have the driver's package.
func (s source) add(lines, imported string) ([]byte, error) {
	end := s.set.Position(s.list.Rbrace).Offset
	if !bytes.HasSuffix(bytes.TrimSpace(s.text[:end]), []byte(",")) {
		return nil, fmt.Errorf(
			"%s:%d: write each driver of this list on a line of its own, with a comma at the end", s.name, s.set.Position(s.list.Lbrace).Line)
	}
	text := string(s.text[:end]) + lines + "\n" + string(s.text[end:])
	at := 0
	for _, spec := range s.file.Imports {
		if strings.HasPrefix(spec.Path.Value, `"`+driverImports) {
			at = s.set.Position(spec.End()).Offset
		}
	}
	if at == 0 {
		return nil, fmt.Errorf("%s: it imports no driver, so there is no place for another import", s.name)
	}
	text = text[:at] + "\n" + strconv.Quote(driverImports+imported) + text[at:]
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s with the driver added: %w", s.name, err)
	}
	return formatted, nil
}

// fields reads the string values of fields in a driver's Go file, such as Prefix. It adds each value to found, with the folder of the file.
func fields(name string, text []byte, found map[string]string) error {
	return inspect(name, text, func(node ast.Node) bool {
		pair, isPair := node.(*ast.KeyValueExpr)
		if !isPair {
			return true
		}
		key, isField := pair.Key.(*ast.Ident)
		value, isLiteral := pair.Value.(*ast.BasicLit)
		if isField && isLiteral && value.Kind == token.STRING {
			if text, err := strconv.Unquote(value.Value); err == nil {
				found[key.Name+" "+text] = path.Base(path.Dir(name))
			}
		}
		return true
	})
}
