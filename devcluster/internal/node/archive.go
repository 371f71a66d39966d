package node

import (
	"fmt"
	"slices"
	"strings"
)

// Archive is a file with images, and names for its only image. Without names, each image keeps the name in the file.
type Archive struct {
	File  string
	Names []string
}

// ParseArchives reads arguments that are FILE or NAME=FILE. A file that several arguments name is loaded once.
func ParseArchives(arguments []string) ([]Archive, error) {
	var all []Archive
	for _, argument := range arguments {
		// A name has no "=". The path of a file without a name may have "=" only after a slash.
		name, file, named := strings.Cut(argument, "=")
		if !named || strings.HasPrefix(argument, "/") || strings.HasPrefix(argument, ".") {
			name, file, named = "", argument, false
		}
		if file == "" || named && name == "" {
			return nil, fmt.Errorf("%q is neither FILE nor NAME=FILE", argument)
		}
		at := slices.IndexFunc(all, func(a Archive) bool { return a.File == file && len(a.Names) > 0 == named })
		if at < 0 {
			all, at = append(all, Archive{File: file}), len(all)
		}
		if named {
			all[at].Names = append(all[at].Names, name)
		}
	}
	return all, nil
}
