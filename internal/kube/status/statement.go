package status

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Statement gathers the conditions of one report.
type Statement struct {
	Conditions []operatorv1.OperatorCondition
	// Again is when to look again, because time alone changes what the conditions say; 0 if it does not.
	Again time.Duration
}

// Add adds conditions, and when to look again because of them.
func (s *Statement) Add(again time.Duration, conditions ...operatorv1.OperatorCondition) {
	s.Conditions = append(s.Conditions, conditions...)
	s.LookAfter(again)
}

// Replace puts a condition in the place of the one of its type, if there is one.
func (s *Statement) Replace(by operatorv1.OperatorCondition) {
	s.Conditions = Replace(s.Conditions, by)
}

// Degrade replaces a condition that says that all is well. It hides no other failure.
func (s *Statement) Degrade(by operatorv1.OperatorCondition) {
	s.Conditions = degrade(s.Conditions, by)
}

// LookAfter makes Again that early, if it is later or 0.
func (s *Statement) LookAfter(again time.Duration) { s.Again = MinRequeue(s.Again, again) }
