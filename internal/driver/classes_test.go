package driver

import "testing"

func TestOneClassIsTheDefaultUnlessSomebodyHasChosen(t *testing.T) {
	ours := Class{Kind: "StorageClass", Name: "ours", Default: "true"}
	cases := map[string]struct {
		classes []Class
		want    string
	}{
		"an empty cluster":                         {want: "true"},
		"no other default":                         {classes: []Class{{Kind: "StorageClass", Name: "theirs"}, {Kind: "StorageClass", Name: "more", Default: "false"}}, want: "true"},
		"another default":                          {classes: []Class{{Kind: "StorageClass", Name: "theirs", Default: "true"}}, want: "false"},
		"a default of another kind":                {classes: []Class{{Kind: "VolumeSnapshotClass", Name: "theirs", Default: "true"}}, want: "true"},
		"ours is there without annotation":         {classes: []Class{{Kind: "StorageClass", Name: "ours"}}, want: "true"},
		"ours lost its annotation to another":      {classes: []Class{{Kind: "StorageClass", Name: "ours"}, {Kind: "StorageClass", Name: "theirs", Default: "true"}}, want: "false"},
		"the administrator does not want ours":     {classes: []Class{{Kind: "StorageClass", Name: "ours", Default: "false"}}, want: "false"},
		"the administrator wants two":              {classes: []Class{{Kind: "StorageClass", Name: "theirs", Default: "true"}, {Kind: "StorageClass", Name: "ours", Default: "true"}}, want: "true"},
		"two in the other order":                   {classes: []Class{{Kind: "StorageClass", Name: "ours", Default: "true"}, {Kind: "StorageClass", Name: "theirs", Default: "true"}}, want: "true"},
		"a class of our name, but of another kind": {classes: []Class{{Kind: "VolumeSnapshotClass", Name: "ours", Default: "false"}}, want: "true"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := defaultOf(Config{Classes: tc.classes}, ours); got != tc.want {
				t.Errorf("annotation %q, want %q", got, tc.want)
			}
		})
	}
}
