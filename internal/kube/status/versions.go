package status

import configv1 "github.com/openshift/api/config/v1"

// OperatorVersion is the name under which a ClusterOperator reports the version of the operator itself.
const OperatorVersion = "operator"

// Operand is a program whose version a ClusterOperator reports.
type Operand struct {
	Name string
	// Reached means that the operand and everything that it manages have the new version.
	Reached bool
}

// Versions returns the versions of a ClusterOperator. An operand that has not reached the new version keeps its previous version. If it has no
// previous version, Versions omits the operand. The operator's own version changes last, after all operands. Versions drops operands that no longer
// exist.
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
