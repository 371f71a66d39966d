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

// Add adds conditions. Argument "again" is the time until one of these conditions can change without an event; 0 means never.
func (s *Statement) Add(again time.Duration, conditions ...operatorv1.OperatorCondition) {
	s.Conditions = append(s.Conditions, conditions...)
	s.RequeueAfter(again)
}

// Replace replaces a condition of the Statement. Argument "by" is the new condition. Replace does nothing if the Statement has no condition of this
// type.
func (s *Statement) Replace(by operatorv1.OperatorCondition) {
	s.Conditions = Replace(s.Conditions, by)
}

// Degrade does the same as Replace, unless the present condition reports another failure.
func (s *Statement) Degrade(by operatorv1.OperatorCondition) {
	s.Conditions = degrade(s.Conditions, by)
}

// RequeueAfter sets field Again to the delay in argument "again", if the delay is shorter than the present value of the field. The value 0 means
// never, and counts as the longest delay.
func (s *Statement) RequeueAfter(again time.Duration) { s.Again = MinRequeue(s.Again, again) }
