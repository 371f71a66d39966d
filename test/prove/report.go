package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// report is Markdown that docs/guide/compatibility.md can show. No line has an ID of the account, the cluster or a file system, unless an error has.
func (p *proof) report() string {
	f := p.facts
	nodes := fmt.Sprintf("%d, %s", len(f.nodes), strings.Join(slices.Compact(slices.Sorted(slices.Values(f.nodes))), " and "))
	if f.simulated {
		nodes += ", simulated by a devcluster"
	} else if f.devcluster {
		nodes += ", of a devcluster"
	}
	var text strings.Builder
	// It is a part of "Reports of real clusters" there.
	fmt.Fprintf(&text, "#### OpenShift %s, %s\n\n%s\n\n| | |\n|---|---|\n",
		cmp.Or(f.openShift, "of unknown version"), p.started.UTC().Format(time.DateOnly), p.outcome())
	endpoints := "AWS's own endpoints"
	if f.endpoint {
		endpoints = "another endpoint, by AWS_ENDPOINT_URL or a setting for one service, such as that of a simulator"
	}
	for _, line := range [][2]string{
		{"Operator", cmp.Or(f.operator, "none")}, {"Image of the driver", cmp.Or(f.driver, "none")}, {"Kubernetes", f.kubernetes},
		{"Region", f.region}, {"Requests to AWS went to", endpoints}, {"Control plane", f.topology}, {"Credentials", f.credentials}, {"Nodes", nodes},
		{"Zones of workers", strings.Join(f.zones, ", ")}, {"Duration", time.Since(p.started).Round(time.Second).String()},
	} {
		fmt.Fprintf(&text, "| %s | %s |\n", line[0], line[1])
	}
	text.WriteString("\n| Step | Result | Seconds | What was seen |\n|---|---|---|---|\n")
	for _, one := range p.results {
		fmt.Fprintf(&text, "| %s | %s | %.0f | %s |\n", one.title, one.outcome, one.took.Seconds(), cell(one.seen))
	}
	return text.String()
}

// outcome counts the results.
func (p *proof) outcome() string {
	count := map[string]int{}
	for _, one := range p.results {
		count[one.outcome]++
	}
	text := fmt.Sprintf("Of %d steps, %d passed, %d failed, and %d were skipped.", len(p.results), count[passed], count[failed], count[skipped])
	if p.facts.devcluster || p.facts.endpoint {
		text += " **This was a rehearsal**: not all of the cluster and of AWS was real."
	}
	return text
}

// cell is a text in one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
