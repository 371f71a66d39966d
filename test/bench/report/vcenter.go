package report

import (
	"errors"
	"fmt"
)

// VCenterSize is how large a vCenter is.
type VCenterSize struct {
	Hosts int `json:"hosts"`
	VMs   int `json:"vms"`
}

// VCenterCost is what it costs to ask a vCenter.
type VCenterCost struct {
	VCenterSize
	// FirstRequests are those of the first poll, which logs in, Requests those of a later one, IdleRequests those between two.
	FirstRequests int     `json:"firstRequests"`
	Requests      int     `json:"requests"`
	IdleRequests  int     `json:"idleRequests"`
	Seconds       float64 `json:"seconds"`
	KeptKibibytes int     `json:"keptKibibytes"`
}

// String is a line for people.
func (c VCenterCost) String() string {
	return fmt.Sprintf("vCenter of %d hosts and %d VMs: %d requests in the first poll, %d in each later one, %d between them; %.2f s and %.1f MiB kept",
		c.Hosts, c.VMs, c.FirstRequests, c.Requests, c.IdleRequests, c.Seconds, float64(c.KeptKibibytes)/1024)
}

// overVCenterBudget says what asking a vCenter costs too much. The numbers are those of up to 200 hosts and 2,000 VMs; requests do not depend on them.
func (r Report) overVCenterBudget() error {
	const first, later, seconds, kibibytes = 20, 14, 5, 4096
	cost := r.VCenter
	if cost == nil {
		return nil
	}
	var problems []error
	over := func(what string, got, most float64) {
		if got > most {
			problems = append(problems, fmt.Errorf("over budget with a vCenter of %d hosts and %d VMs: %v %s, at most %v", cost.Hosts, cost.VMs, got, what, most))
		}
	}
	over("requests in the first poll", float64(cost.FirstRequests), first)
	over("requests in a poll", float64(cost.Requests), later)
	over("requests between polls", float64(cost.IdleRequests), 0)
	over("seconds for a poll", cost.Seconds, seconds)
	over("KiB kept", float64(cost.KeptKibibytes), kibibytes)
	return errors.Join(problems...)
}
