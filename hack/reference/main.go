// Command reference compares docs/guide/reference.md with the code. The page must list all names that an operator reports or reads, and no other
// names.
//
//	go run ./hack/reference
package main

import (
	"fmt"
	"io/fs"
	"os"
)

// page is the path of the page.
const page = "docs/guide/reference.md"

func main() {
	problems, err := check(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// check compares the page of a repository with the code of the repository. It returns a sentence for each difference.
func check(root string) ([]string, error) {
	text, err := fs.ReadFile(os.DirFS(root), page)
	if err != nil {
		return nil, fmt.Errorf("reference page: %w", err)
	}
	documented := tables(string(text))
	var problems []string
	for _, one := range subjects() {
		found, err := one.find(root)
		if err != nil {
			return nil, err
		}
		problems = append(problems, one.compare(found, documented)...)
	}
	return problems, nil
}
