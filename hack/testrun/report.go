package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// slowest is the number of tests, and of packages, that the report lists. It lists the slowest ones.
	slowest = 10
	module  = "github.com/csi-operators/csi-operators/"
)

// report prints the slowest tests and packages, and the processor time.
func (o *outcome) report(out io.Writer, used usage) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	p("\nThe slowest tests:\n")
	tests := slices.SortedFunc(maps.Keys(o.elapsed), func(a, b key) int { return cmp.Compare(o.elapsed[b], o.elapsed[a]) })
	tests = slices.DeleteFunc(tests, func(k key) bool { return k.Test == "" })
	for _, k := range tests[:min(slowest, len(tests))] {
		p("  %6.1f s  %s %s\n", o.elapsed[k], short(k.Package), k.Test)
	}
	p("\nPackages, with the processor time of all that their tests have started:\n  %8s  %9s\n", "wall", "processor")
	var others struct {
		count     int
		wall, cpu float64
	}
	cost := func(pkg string) float64 { return used.packages[short(pkg)] }
	packages := slices.SortedFunc(maps.Keys(o.lanes), func(a, b string) int { return cmp.Compare(cost(b), cost(a)) })
	for i, pkg := range packages {
		if i < 2*slowest {
			p("  %6.1f s  %7.1f s  %s\n", o.elapsed[key{Package: pkg}], cost(pkg), short(pkg))
			continue
		}
		others.count++
		others.wall += o.elapsed[key{Package: pkg}]
		others.cpu += cost(pkg)
	}
	if others.count > 0 {
		p("  %6.1f s  %7.1f s  %d others\n", others.wall, others.cpu, others.count)
	}
	used.report(p)
	p("\n%d passed, %d failed\n", o.passes, o.fails)
}

// report prints the processor time of each component.
func (u usage) report(p func(format string, args ...any)) {
	if u.total == 0 {
		return
	}
	p("\nProcessor time by component:\n")
	for _, name := range slices.SortedFunc(maps.Keys(u.components), func(a, b string) int { return cmp.Compare(u.components[b], u.components[a]) }) {
		p("  %7.1f s  %4.1f %%  %s\n", u.components[name], 100*u.components[name]/u.total, name)
	}
	p("  %7.1f s          in all, of which the starts of %d control planes have taken %.1f s\n", u.total, u.starts, u.startTime)
}

func short(pkg string) string { return strings.TrimPrefix(pkg, module) }
