// Package migration migrates a driver from predecessors to this operator, without stopping applications. The reasons are in docs/decisions/0013,
// 0021, 0030, 0031, 0035 and 0037. Names of predecessors are data: driver.Predecessor.
//
// migration.go observes leftovers of a predecessor, and predecessor.go watches for them in caches by name. Without evidence it sends no request,
// except for a predecessor in its own namespace (namespace.go), which is read live until it is gone. While something blocks (blocked.go), nothing is
// applied. Objects are adopted by applying them (kube/apply).
//
// advance.go continues after that: node pods (nodes.go), leftovers (leftovers.go) and settings of the predecessor (inherit.go). copies.go chooses
// among copies of this operator: the oldest works. plan.go makes the plan of a dry run.
package migration
