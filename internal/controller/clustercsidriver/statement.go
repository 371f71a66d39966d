package clustercsidriver

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// statement gathers the conditions of one report.
type statement struct {
	conditions []operatorv1.OperatorCondition
	// again is when to look again, because time alone changes what they say; 0 if it does not.
	again time.Duration
}

// add adds conditions, and when to look again because of them.
func (s *statement) add(again time.Duration, conditions ...operatorv1.OperatorCondition) {
	s.conditions = append(s.conditions, conditions...)
	s.lookAfter(again)
}

// replace puts a condition in the place of the one of its type, if there is one.
func (s *statement) replace(by operatorv1.OperatorCondition) {
	s.conditions = status.Replace(s.conditions, by)
}

// degrade replaces a condition that says that all is well. It hides no other failure.
func (s *statement) degrade(by operatorv1.OperatorCondition) {
	if before := status.Find(s.conditions, by.Type); before != nil && before.Status == operatorv1.ConditionFalse {
		s.replace(by)
	}
}

func (s *statement) lookAfter(again time.Duration) { s.again = status.MinRequeue(s.again, again) }
