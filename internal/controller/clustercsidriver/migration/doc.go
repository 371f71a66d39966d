// Package migration migrates a driver from predecessors to this operator, without stopping applications. The reasons are in docs/decisions/0013,
// 0021, 0030, 0031, 0035 and 0037. The names of predecessors are data in driver.Predecessor.
//
// migration.go observes leftovers of a predecessor, and predecessor.go has the caches that watch for these leftovers by name. Without evidence of a
// predecessor, the package sends no request. The exception is a predecessor in a namespace of its own (namespace.go): the package reads that
// namespace live until the predecessor is gone. While something blocks the migration (blocked.go), the operator applies nothing. The operator adopts
// objects by applying them (kube/apply).
//
// After the operator has applied its objects, advance.go replaces node pods (nodes.go) and deletes leftovers (leftovers.go). inherit.go reads the
// settings of the predecessor. copies.go chooses among copies of this operator: only the oldest copy works. plan.go makes the plan of a dry run.
package migration
