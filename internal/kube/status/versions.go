package status

import configv1 "github.com/openshift/api/config/v1"

// OperatorVersion is the name of the version of a ClusterOperator's operator itself.
const OperatorVersion = "operator"

// Operand is one of the programs whose versions a ClusterOperator has.
type Operand struct {
	Name string
	// Reached says that it is at the new version, and everything that it looks after.
	Reached bool
}

// Versions are those of a ClusterOperator. One that has not been reached keeps its old value, or has none; that of the operator
// itself comes last, when all others are reached. Names that are no longer wanted go.
func Versions(have []configv1.OperandVersion, operands []Operand, version string) []configv1.OperandVersion {
	old := map[string]string{}
	for _, entry := range have {
		old[entry.Name] = entry.Version
	}
	all := true
	var versions []configv1.OperandVersion
	add := func(name string, reached bool) {
		value := old[name]
		if reached {
			value = version
		}
		if value != "" {
			versions = append(versions, configv1.OperandVersion{Name: name, Version: value})
		}
	}
	for _, operand := range operands {
		all = all && operand.Reached
		add(operand.Name, operand.Reached)
	}
	add(OperatorVersion, all)
	return versions
}
