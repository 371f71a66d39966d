package report

import (
	"errors"
	"fmt"
)

// ReaderSize is how much a node has that aws-efs-node-health reads.
type ReaderSize struct {
	Mounts int `json:"mounts"`
	// Processes counts the processes that are no tunnels.
	Processes int `json:"processes"`
}

// ReaderCost is what aws-efs-node-health costs on a node.
type ReaderCost struct {
	ReaderSize
	Readings int `json:"readings"`
	// Milliseconds is the CPU time of each reading.
	Milliseconds  float64 `json:"cpuMilliseconds"`
	PeakKibibytes int     `json:"peakKibibytes"`
}

// readerInterval is the number of seconds between two readings: the default of the program's flag -interval.
const readerInterval = 15

// MilliCores is how much of a CPU the program needs all the time.
func (c ReaderCost) MilliCores() float64 { return c.Milliseconds / readerInterval }

// String is a line for people.
func (c ReaderCost) String() string {
	return fmt.Sprintf("aws-efs-node-health with %d mounts and %d other processes: %.1f ms of CPU for each of %d readings, which is %.1f milli-cores; "+
		"%.1f MiB at most", c.Mounts, c.Processes, c.Milliseconds, c.Readings, c.MilliCores(), float64(c.PeakKibibytes)/1024)
}

// overReaderBudget says what the program costs too much on a node with 100 mounts and 1,000 processes.
func (r Report) overReaderBudget() error {
	const milliCores, mebibytes = 5, 15
	cost := r.Reader
	if cost == nil {
		return nil
	}
	var problems []error
	over := func(what string, got, most float64) {
		if got > most {
			problems = append(problems, fmt.Errorf("over budget with %d mounts on a node: %.1f %s of aws-efs-node-health, at most %v", cost.Mounts, got, what, most))
		}
	}
	over("milli-cores", cost.MilliCores(), milliCores)
	over("MiB", float64(cost.PeakKibibytes)/1024, mebibytes)
	return errors.Join(problems...)
}
