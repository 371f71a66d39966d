package node

import (
	"fmt"
	"slices"
	"strings"
)

// Archive is a file with images. If it has Names, the file has only one image, and the image gets these names. Without Names, each image keeps
// the name that it has in the file.
type Archive struct {
	File  string
	Names []string
}

// ParseArchives reads arguments of the form FILE or NAME=FILE. Arguments of the same form with the same file become one Archive.
func ParseArchives(arguments []string) ([]Archive, error) {
	var all []Archive
	for _, argument := range arguments {
		// The text before the first "=" is a name. To load a file with "=" in its path, the user has to begin the path with "/" or ".".
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
