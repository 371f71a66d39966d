package status

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Statement collects the conditions of a report.
type Statement struct {
	Conditions []operatorv1.OperatorCondition
	// Again is the time until a condition can change without an event. 0 means never.
	Again time.Duration
}

// Add adds conditions. Argument "again" is the time until one of them can change without an event; 0 means never.
func (s *Statement) Add(again time.Duration, conditions ...operatorv1.OperatorCondition) {
	s.Conditions = append(s.Conditions, conditions...)
	s.RequeueAfter(again)
}

// Replace replaces the condition of the type of argument "by", if the Statement has such a condition.
func (s *Statement) Replace(by operatorv1.OperatorCondition) {
	s.Conditions = Replace(s.Conditions, by)
}

// Degrade replaces the condition of the type of argument "by", unless the present condition reports another failure.
func (s *Statement) Degrade(by operatorv1.OperatorCondition) {
	s.Conditions = degrade(s.Conditions, by)
}

// RequeueAfter sets Again to this delay, unless Again is already shorter. The zero value of Again means never, and counts as longer.
func (s *Statement) RequeueAfter(again time.Duration) { s.Again = MinRequeue(s.Again, again) }
