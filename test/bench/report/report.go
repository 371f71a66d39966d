// Package report is what the bench has measured: a table for people, JSON for programs, plots, and what costs more than it may.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// Ours is the name of our operator in the report.
	Ours = "ours"
	// OneRound is the number of SharedVolumes above which one round is enough.
	OneRound = 1000
)

// Report is the JSON file. The units are in the names; what is null did not happen within the limit.
type Report struct {
	Date         time.Time        `json:"date"`
	System       string           `json:"system"`
	Cores        int              `json:"cores"`
	Kubernetes   string           `json:"kubernetes"`
	LimitSeconds float64          `json:"limitSeconds"`
	QuietSeconds float64          `json:"quietSeconds"`
	Operators    []Program        `json:"operators"`
	Scenarios    []ScenarioReport `json:"scenarios"`
	Shared       []SharedReport   `json:"sharedVolumes"`
	// VCenter and Reader are nil if they were not measured.
	VCenter *VCenterCost `json:"vCenter,omitempty"`
	Reader  *ReaderCost  `json:"reader,omitempty"`
}

// Program is a binary that was measured.
type Program struct {
	Operator string `json:"operator"`
	File     string `json:"file"`
	Version  string `json:"version"`
	Go       string `json:"go"`
}

// Scenario is a control plane to measure on.
type Scenario struct {
	Nodes        int `json:"nodes"`
	OtherVolumes int `json:"foreignVolumes"`
	// Volumes are those of EFS. If there are any, the operator has credentials, and checks AWS.
	Volumes int `json:"volumes"`
	// Shares are SharedVolumes that are made once the driver is there.
	Shares int `json:"sharedVolumes"`
}

// String is the head of a column.
func (s Scenario) String() string {
	text := fmt.Sprintf("%d nodes", s.Nodes)
	for _, one := range []struct {
		count int
		what  string
	}{{s.OtherVolumes, "foreign PVs"}, {s.Volumes, "PVs of EFS"}, {s.Shares, "SharedVolumes"}} {
		if one.count > 0 {
			text += fmt.Sprintf(", %d %s", one.count, one.what)
		}
	}
	return text
}

// ScenarioReport is what was measured on one control plane.
type ScenarioReport struct {
	Scenario
	Results []Result `json:"results"`
}

// Result is what was measured of the operator in one scenario.
type Result struct {
	Operator string `json:"operator"`
	// FailedAt names the step that could not be measured, nor those after it; the reason is in the output.
	FailedAt string        `json:"failedAt,omitempty"`
	Start    *StartCost    `json:"start"`
	Converge *ConvergeCost `json:"converge"`
	Idle     *IdleCost     `json:"idle"`
	Change   *ChangeCost   `json:"change"`
	Repair   *RepairCost   `json:"repair"`
	Remove   *RemoveCost   `json:"remove"`
	// Rounds are of SharedVolumes only, for which nothing is repaired.
	Rounds []Round `json:"rounds,omitempty"`
}

// StartCost is the time from the process until the operator waits for a ClusterCSIDriver.
type StartCost struct {
	Requests   int     `json:"requests"`
	Writes     int     `json:"writes"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

// ConvergeCost is the time from the creation of the ClusterCSIDriver until the driver is rolled out and the operator is
// quiet.
type ConvergeCost struct {
	Requests int `json:"requests"`
	Writes   int `json:"writes"`
	// RolledOut is when the workloads were rolled out for good, LastRequest when the operator fell silent.
	RolledOut         *float64 `json:"rolledOutMilliseconds"`
	LastRequest       *float64 `json:"lastRequestMilliseconds"`
	CPUSeconds        float64  `json:"cpuSeconds"`
	ResidentKibibytes int      `json:"residentKibibytes"`
	PeakKibibytes     int      `json:"peakResidentKibibytes"`
}

// ChangeCost is the time from a change of the driver's log level until all its pods are new.
type ChangeCost struct {
	Requests          int      `json:"requests"`
	Writes            int      `json:"writes"`
	RolledOut         *float64 `json:"rolledOutMilliseconds"`
	CPUSeconds        float64  `json:"cpuSeconds"`
	ResidentKibibytes int      `json:"residentKibibytes"`
}

// IdleCost is the time in which nothing happens.
type IdleCost struct {
	Seconds float64 `json:"seconds"`
	// Requests are neither of the lease nor watches.
	Requests      int `json:"requests"`
	Writes        int `json:"writes"`
	LeaseRequests int `json:"leaseRequests"`
	Watches       int `json:"watches"`
	CloudRequests int `json:"cloudRequests"`
	// Kinds counts the requests by verb and resource.
	Kinds             map[string]int `json:"kinds"`
	CPUSeconds        float64        `json:"cpuSeconds"`
	ResidentKibibytes int            `json:"residentKibibytes"`
}

// RepairCost is the time from the deletion of each object until there is a new one.
type RepairCost struct {
	Milliseconds map[string]float64 `json:"repairMilliseconds"`
	NotRepaired  []string           `json:"notRepaired"`
}

// RemoveCost is the time from the deletion of the ClusterCSIDriver until it and the last object that went were gone.
type RemoveCost struct {
	Milliseconds  *float64 `json:"removeMilliseconds"`
	ObjectsLeft   []string `json:"objectsLeft"`
	PeakKibibytes int      `json:"peakResidentKibibytes"`
}

// line is a line of the table: a title and a cell for each column.
type line[T any] struct {
	title string
	cell  func(T) string
}

// WriteTable writes the report for people: a column for each scenario.
func (r Report) WriteTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, program := range r.Operators {
		_, _ = fmt.Fprintf(table, "%s\t%s %s, %s\n", program.Operator, program.File, program.Version, program.Go)
	}
	_, _ = fmt.Fprintf(table, "system\t%s, %d cores, Kubernetes %s\n", r.System, r.Cores, r.Kubernetes)
	var scenarios []string
	var results []Result
	for _, scenario := range r.Scenarios {
		for _, result := range scenario.Results {
			scenarios, results = append(scenarios, scenario.String()), append(results, result)
		}
	}
	writeLines(table, scenarios, results, lines(r))
	writeShared(table, r.Shared)
	r.writeObjectives(table)
	// The writer keeps an error until it is flushed.
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	for _, part := range []struct {
		measured bool
		cost     fmt.Stringer
	}{{r.VCenter != nil, r.VCenter}, {r.Reader != nil, r.Reader}} {
		if !part.measured {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s\n", part.cost); err != nil {
			return fmt.Errorf("print the costs below the table: %w", err)
		}
	}
	return nil
}

// writeLines writes a head and the lines; nothing if there are no columns.
func writeLines[T any](table io.Writer, scenarios []string, columns []T, lines []line[T]) {
	if len(columns) == 0 {
		return
	}
	_, _ = fmt.Fprintf(table, "\n\t%s\n", strings.Join(scenarios, "\t"))
	for _, line := range lines {
		_, _ = fmt.Fprint(table, line.title)
		for _, column := range columns {
			_, _ = fmt.Fprint(table, "\t", line.cell(column))
		}
		_, _ = fmt.Fprintln(table)
	}
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// lines are the lines of the table, in the order in which things happen.
func lines(report Report) []line[Result] {
	limit := notWithin(report.LimitSeconds)
	shares := sharesLines(limit)
	if !slices.ContainsFunc(report.Scenarios, func(s ScenarioReport) bool { return s.Shares > 0 }) {
		shares = nil
	}
	return slices.Concat(convergeLines(limit), shares, idleLines(), changeLines(limit), repairLines(limit), removeLines(limit))
}

// notWithin is the cell of what did not happen.
func notWithin(seconds float64) string {
	limit := time.Duration(seconds * float64(time.Second)).String()
	if minutes, whole := strings.CutSuffix(limit, "m0s"); whole {
		limit = minutes + "m"
	}
	return "not within " + limit
}

func convergeLines(limit string) []line[Result] {
	cell := func(show func(*ConvergeCost) string) func(Result) string {
		return func(r Result) string { return known(r.Converge, show) }
	}
	return []line[Result]{
		{"requests to start, writes", func(r Result) string {
			return known(r.Start, func(s *StartCost) string { return fmt.Sprintf("%d, %d", s.Requests, s.Writes) })
		}},
		{"requests to converge, writes", cell(func(c *ConvergeCost) string { return fmt.Sprintf("%d, %d", c.Requests, c.Writes) })},
		{"driver rolled out after", cell(func(c *ConvergeCost) string { return duration(c.RolledOut, limit) })},
		{"last request after", cell(func(c *ConvergeCost) string { return duration(c.LastRequest, limit) })},
		{"CPU to start, to converge", func(r Result) string {
			return known(r.Converge, func(c *ConvergeCost) string { return fmt.Sprintf("%.2f s, %.2f s", r.Start.CPUSeconds, c.CPUSeconds) })
		}},
		{"memory when converged, peak", cell(func(c *ConvergeCost) string {
			if c.PeakKibibytes == 0 {
				return mebibytes(c.ResidentKibibytes)
			}
			return mebibytes(c.ResidentKibibytes) + ", " + mebibytes(c.PeakKibibytes)
		})},
	}
}

// sharesLines are of scenarios that have SharedVolumes.
func sharesLines(limit string) []line[Result] {
	cell := func(show func(*ShareCost) string) func(Result) string {
		return func(r Result) string {
			if len(r.Rounds) == 0 {
				return "none"
			}
			return known(r.Rounds[0].Share, show)
		}
	}
	return []line[Result]{
		{"SharedVolumes: volumes exist after", cell(func(s *ShareCost) string { return duration(s.Exist, limit) })},
		{"  Ready after", cell(func(s *ShareCost) string { return duration(s.Ready, limit) })},
		{"  requests, writes", cell(func(s *ShareCost) string { return fmt.Sprintf("%d, %d", s.Requests, s.Writes) })},
		{"  CPU", cell(func(s *ShareCost) string { return fmt.Sprintf("%.2f s", s.CPUSeconds) })},
		{"  memory when Ready", cell(func(s *ShareCost) string { return mebibytes(s.ResidentKibibytes) })},
	}
}

func changeLines(limit string) []line[Result] {
	cell := func(show func(*ChangeCost) string) func(Result) string {
		return func(r Result) string { return known(r.Change, show) }
	}
	return []line[Result]{
		{"changed: all pods new after", cell(func(c *ChangeCost) string { return duration(c.RolledOut, limit) })},
		{"  requests, writes", cell(func(c *ChangeCost) string { return fmt.Sprintf("%d, %d", c.Requests, c.Writes) })},
		{"  CPU", cell(func(c *ChangeCost) string { return fmt.Sprintf("%.2f s", c.CPUSeconds) })},
		{"  memory", cell(func(c *ChangeCost) string { return mebibytes(c.ResidentKibibytes) })},
	}
}

func idleLines() []line[Result] {
	cell := func(show func(*IdleCost) string) func(Result) string {
		return func(r Result) string { return known(r.Idle, show) }
	}
	return []line[Result]{
		{"requests per idle minute", cell(func(i *IdleCost) string { return i.perMinute(float64(i.Requests)) })},
		{"  besides: of the lease", cell(func(i *IdleCost) string { return i.perMinute(float64(i.LeaseRequests)) })},
		{"  besides: watches opened again", cell(func(i *IdleCost) string { return i.perMinute(float64(i.Watches)) })},
		{"  besides: to AWS", cell(func(i *IdleCost) string { return i.perMinute(float64(i.CloudRequests)) })},
		{"CPU per idle minute", cell(func(i *IdleCost) string { return fmt.Sprintf("%.2f s", i.CPUSeconds*60/i.Seconds) })},
		{"memory after idling", cell(func(i *IdleCost) string { return mebibytes(i.ResidentKibibytes) })},
	}
}

func (i *IdleCost) perMinute(count float64) string {
	return strconv.FormatFloat(count*60/i.Seconds, 'f', 1, 64)
}

func repairLines(limit string) []line[Result] {
	cell := func(show func(*RepairCost) string) func(Result) string {
		return func(r Result) string { return known(r.Repair, show) }
	}
	return []line[Result]{
		{"objects deleted one by one", cell(func(c *RepairCost) string {
			return strconv.Itoa(len(c.Milliseconds) + len(c.NotRepaired))
		})},
		{"  repaired " + limit, cell(func(c *RepairCost) string { return strconv.Itoa(len(c.NotRepaired)) })},
		{"  repaired after, median", cell(func(c *RepairCost) string { return duration(median(c.Milliseconds), "none") })},
		{"  repaired after, slowest", cell(func(c *RepairCost) string {
			took, _ := slowest(c.Milliseconds)
			return duration(took, "none")
		})},
		{"  the slowest", cell(func(c *RepairCost) string {
			_, name := slowest(c.Milliseconds)
			return name
		})},
	}
}

func removeLines(limit string) []line[Result] {
	cell := func(show func(*RemoveCost) string) func(Result) string {
		return func(r Result) string { return known(r.Remove, show) }
	}
	return []line[Result]{
		{"removed after", cell(func(c *RemoveCost) string { return duration(c.Milliseconds, limit) })},
		{"objects left after removal", cell(func(c *RemoveCost) string { return strconv.Itoa(len(c.ObjectsLeft)) })},
		{"peak memory", cell(func(c *RemoveCost) string { return mebibytes(c.PeakKibibytes) })},
	}
}

// known shows what was measured.
func known[T any](cost *T, show func(*T) string) string {
	if cost == nil {
		return "not measured"
	}
	return show(cost)
}

// repairTime is one entry of RepairCost.
type repairTime struct {
	name string
	took float64
}

func sorted(repairs map[string]float64) []repairTime {
	var list []repairTime
	for name, took := range repairs {
		list = append(list, repairTime{name, took})
	}
	slices.SortFunc(list, func(a, b repairTime) int {
		return cmp.Or(cmp.Compare(a.took, b.took), strings.Compare(a.name, b.name))
	})
	return list
}

// slowest is the last repair; it has no time if there was none.
func slowest(repairs map[string]float64) (took *float64, name string) {
	if len(repairs) == 0 {
		return nil, "none"
	}
	list := sorted(repairs)
	last := list[len(list)-1]
	return &last.took, last.name
}

// median is the upper one of the two in the middle, if there are two; nil if there is none.
func median(repairs map[string]float64) *float64 {
	if len(repairs) == 0 {
		return nil
	}
	return &sorted(repairs)[len(repairs)/2].took
}

func duration(took *float64, otherwise string) string {
	if took == nil {
		return otherwise
	}
	return milliseconds(*took)
}

func milliseconds(took float64) string {
	if took < 10 {
		return fmt.Sprintf("%.1f ms", took)
	}
	return fmt.Sprintf("%.0f ms", took)
}

func mebibytes(kibibytes int) string {
	if kibibytes == 0 {
		return "not known here"
	}
	return fmt.Sprintf("%d MiB", kibibytes/1024)
}
