// Program kubectl is kubectl alone, for tests. Tests start kubectl hundreds of times, and the kubectl in devcluster first initializes all packages of
// Kubernetes. Under the name "oc", the program finds plugins in the same way as oc.
package main

import (
	"os"
	"path/filepath"

	"github.com/csi-operators/csi-operators/devcluster/internal/kubectl"
)

func main() {
	os.Exit(kubectl.Run(filepath.Base(os.Args[0]), os.Args[1:]))
}
