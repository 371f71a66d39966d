// Package bundle has the objects that an administrator applies to install the operator, for programs that do the same.
package bundle

import "embed"

// Install are the files of the folder install, which "make bundle" writes. Those of before-4.21 replace files of the same name on older clusters.
//
//go:embed install/*.yaml install/before-4.21/*.yaml
var Install embed.FS
