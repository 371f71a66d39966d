// Package bundle has the objects that an administrator applies to install the operator, for programs that do the same.
package bundle

import "embed"

// Install are the files of the folder install, which "make bundle" writes.
//
//go:embed install/*.yaml
var Install embed.FS
