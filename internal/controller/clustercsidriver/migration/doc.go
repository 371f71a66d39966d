// Package migration moves a driver from the operators before this one to this one, without stopping an application. Why it works so:
// docs/decisions/0013, 0021, 0030, 0031, 0035 and 0037. The names are data: driver.Predecessor.
//
// migration.go observes what a predecessor has left, and predecessor.go watches for it in caches by name. Without evidence, this sends no request,
// but for a predecessor in a namespace of its own (namespace.go), which is read live until it has gone once. While something blocks
// (blocked.go), nothing is applied. Adopting is part of applying (kube/apply).
//
// advance.go continues after that: node pods (nodes.go), leftovers (leftovers.go) and settings of the predecessor (inherit.go). copies.go tells
// copies of this operator apart: the one that was installed first works. plan.go makes the plan of a dry run.
package migration
