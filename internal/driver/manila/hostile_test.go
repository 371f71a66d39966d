package manila

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// namesOf returns the class names by share type, for a cluster with existing classes.
func namesOf(t testing.TB, have []*storagev1.StorageClass, types ...string) (map[string]string, []*storagev1.StorageClass) {
	t.Helper()
	cfg := driver.Config{Cloud: driver.CloudFacts{Known: true, ShareTypes: types}}
	for _, class := range have {
		cfg.Classes = append(cfg.Classes, driver.Class{
			Kind: "StorageClass", Name: class.Name, Provisioner: class.Provisioner, Parameters: class.Parameters,
		})
	}
	made, names := classes(cfg), map[string]string{}
	for _, class := range made {
		of := class.Parameters[typeParameter]
		if names[of] != "" {
			t.Errorf("share type %.50q has two classes", of)
		}
		names[of] = class.Name
	}
	return names, made
}

func TestClassesAreNamedAsByOpenShiftAndKeepTheirNames(t *testing.T) {
	const defaultHash, goldHash = "csi-manila-default-nfs-", "csi-manila-gold-"
	for name, tc := range map[string]struct {
		// before are the cloud's types at the creation of the existing classes.
		before, types []string
		// want are name prefixes; names with a hash end with "-" here.
		want map[string]string
	}{
		"plain":      {types: []string{"default", "Gold_NFS"}, want: map[string]string{"default": "csi-manila-default", "Gold_NFS": "csi-manila-gold-nfs"}},
		"alone":      {types: []string{"Default_NFS"}, want: map[string]string{"Default_NFS": "csi-manila-default-nfs"}},
		"collision":  {types: []string{"Default_NFS", "default-nfs"}, want: map[string]string{"default-nfs": "csi-manila-default-nfs", "Default_NFS": defaultHash}},
		"the holder": {before: []string{"Default_NFS"}, types: []string{"Default_NFS", "default-nfs"}, want: map[string]string{"Default_NFS": "csi-manila-default-nfs", "default-nfs": defaultHash}},
		"a holder that is gone": {before: []string{"Default_NFS"}, types: []string{"default-nfs"},
			want: map[string]string{"Default_NFS": "csi-manila-default-nfs", "default-nfs": defaultHash}},
		"dots":        {types: []string{"v1.2"}, want: map[string]string{"v1.2": "csi-manila-v1.2"}},
		"hostile":     {types: []string{"../gold", "gold", "GOLD"}, want: map[string]string{"gold": "csi-manila-gold", "GOLD": goldHash, "../gold": goldHash}},
		"ends wrong":  {types: []string{"gold-"}, want: map[string]string{"gold-": goldHash}},
		"no letter":   {types: []string{"..", "日本"}, want: map[string]string{"..": "csi-manila-", "日本": "csi-manila-"}},
		"kelvin sign": {types: []string{"\u212a", "k"}, want: map[string]string{"k": "csi-manila-k", "\u212a": "csi-manila-k-"}},
	} {
		_, have := namesOf(t, nil, tc.before...)
		got, _ := namesOf(t, have, tc.types...)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v", name, got)
		}
		for of, want := range tc.want {
			if got[of] != want && (!strings.HasSuffix(want, "-") || !strings.HasPrefix(got[of], want) || len(got[of]) != len(want)+hashLength) {
				t.Errorf("%s: type %q has class %s, want %s", name, of, got[of], want)
			}
		}
	}
}

func TestNamesAreTheSameInAnyOrderAndWhenOthersComeAndGo(t *testing.T) {
	types := []string{"a", "A", "_a", "-a", "gold", "Gold", "GOLD", "日本", strings.Repeat("x", 10000), strings.Repeat("x", 9999), "../a", "a_b", "a-b", "A-B"}
	first, have := namesOf(t, nil, types...)
	for range 100 {
		rand.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
		again, _ := namesOf(t, nil, types...)
		if !maps.Equal(first, again) {
			t.Fatalf("in another order: %.2000q", slices.Sorted(maps.Values(again)))
		}
		// Existing classes keep their name and type.
		fewer, _ := namesOf(t, have, slices.Concat(types[:rand.IntN(len(types))], []string{"new", "NEW", "A_B"})...)
		for of, name := range first {
			if fewer[of] != name {
				t.Fatalf("type %.50q had class %s, and with other types %s", of, name, fewer[of])
			}
		}
	}
}

// A new share type can have the name of another type's class with its hash. No class changes its type then.
func TestAShareTypeThatIsCalledAsAnothersClassTakesNothing(t *testing.T) {
	types := []string{"Gold", "gold"}
	_, have := namesOf(t, nil, types...)
	for range 4 {
		for _, class := range have {
			types = append(types, strings.TrimPrefix(class.Name, classPrefix))
		}
		fresh, _ := namesOf(t, nil, types...)
		later, made := namesOf(t, have, types...)
		for _, of := range types {
			if fresh[of] == "" || later[of] == "" {
				t.Errorf("type %q has class %q, and later %q", of, fresh[of], later[of])
			}
		}
		for _, class := range have {
			if of := class.Parameters[typeParameter]; later[of] != class.Name {
				t.Errorf("type %q had class %s, and later %s", of, class.Name, later[of])
			}
		}
		have = made
	}
}

func FuzzNamesOfClasses(f *testing.F) {
	for _, seed := range []string{"default", "../../etc", "Default_NFS", "日本", "a\x00b", strings.Repeat("A_", 5000), "-", "\xff"} {
		f.Add(seed, "gold")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		names, _ := namesOf(t, nil, one, other)
		for of, name := range names {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || !strings.HasPrefix(name, classPrefix) {
				t.Errorf("type %q has class %q: %v", of, name, problems)
			}
		}
		if one != "" && other != "" && one != other && (names[one] == names[other] || names[one] == "" || names[other] == "") {
			t.Errorf("%q and %q: %v", one, other, names)
		}
		if again, _ := namesOf(t, nil, other, one); !maps.Equal(names, again) {
			t.Errorf("in another order: %.500v and %.500v", names, again)
		}
	})
}
