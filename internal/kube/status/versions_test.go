package status

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/google/go-cmp/cmp"
)

func TestTheVersionOfTheOperatorComesLast(t *testing.T) {
	versions := func(pairs ...string) []configv1.OperandVersion {
		var list []configv1.OperandVersion
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, configv1.OperandVersion{Name: pairs[i], Version: pairs[i+1]})
		}
		return list
	}
	for name, tc := range map[string]struct {
		have     []configv1.OperandVersion
		operands []Operand
		want     []configv1.OperandVersion
	}{
		"a new cluster has none":            {nil, []Operand{{"a", false}}, nil},
		"one of two is there":               {nil, []Operand{{"a", true}, {"b", false}}, versions("a", "2")},
		"all are there":                     {nil, []Operand{{"a", true}, {"b", true}}, versions("a", "2", "b", "2", "operator", "2")},
		"old values stay until then":        {versions("operator", "1", "a", "1"), []Operand{{"a", false}}, versions("a", "1", "operator", "1")},
		"each goes on its own":              {versions("operator", "1", "a", "1", "b", "1"), []Operand{{"a", true}, {"b", false}}, versions("a", "2", "b", "1", "operator", "1")},
		"nothing to wait for":               {versions("operator", "1"), nil, versions("operator", "2")},
		"names that are not wanted go":      {versions("operator", "1", "old", "1"), []Operand{{"a", true}}, versions("a", "2", "operator", "2")},
		"a driver that falls back says so":  {versions("a", "2", "operator", "2"), []Operand{{"a", false}}, versions("a", "2", "operator", "2")},
		"what is not known keeps all as is": {versions("a", "1", "operator", "1"), []Operand{{"a", true}, {"", false}}, versions("a", "2", "operator", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Versions(tc.have, tc.operands, "2")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
