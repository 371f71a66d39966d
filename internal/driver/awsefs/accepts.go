package awsefs

import "github.com/csi-operators/csi-operators/internal/driver/accept"

// Versions in which the driver's parser of --tags changed. All versions from 1.2.0 to the first change share one parser.
const (
	readsColons = "2.1.12"
	readsSpaces = "2.2.0"
)

// accepts returns the values that the driver accepts, with their sources. A source without a repository is a file of
// kubernetes-sigs/aws-efs-csi-driver.
func accepts() accept.Table {
	const (
		limits = "https://docs.aws.amazon.com/efs/latest/ug/API_Tag.html"
		parser = "pkg/driver/driver.go parseTagsFromStr"
	)
	table := accept.Table{
		// The key of the cluster's tag has 22 characters before the name: see driver.ClusterTag. AWS allows 128 characters in a key.
		accept.Name(106, "only a name of up to 106 letters, digits and . _ - fits into a tag", limits),
		accept.AWSRegion(),
		{Of: accept.Tag, Name: accept.Key, Match: `(?s).{1,128}`, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Value, Most: 256, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Key, Match: characters, Why: "AWS allows letters, digits, spaces and _ . : / = + - @ only", Source: limits},
		{Of: accept.Tag, Name: accept.Value, Match: characters, Why: "AWS allows letters, digits, spaces and _ . : / = + - @ only", Source: limits},
		{Of: accept.Tag, Name: accept.Key, Except: `^(?i:aws:)`, Why: "AWS reserves keys with the prefix \"aws:\"", Source: limits},
		{Of: accept.Tag, Name: accept.Key, Except: `^efs\.csi\.aws\.com/cluster$`, Why: "the driver sets this key itself",
			Source: "v3.4.1 pkg/driver/controller.go DefaultTagKey"},
	}
	for _, half := range []string{accept.Key, accept.Value} {
		table = append(table,
			accept.Row{Of: accept.Tag, Name: half, Before: readsColons, Except: ":", Source: "v2.1.11 " + parser,
				Why: "drivers before 2.1.12 have no way to write a colon in their flag --tags; use another character, or a newer driver"},
			accept.Row{Of: accept.Tag, Name: half, Before: readsSpaces, Except: " ", Source: "v2.1.15 " + parser,
				Why: "drivers before 2.2 have no way to write a space in their flag --tags; use another character, or a newer driver"},
			// The driver compares the last byte of a rune with the separator, and miscounts after a rune of several bytes.
			accept.Row{Of: accept.Tag, Name: half, Since: readsSpaces, Except: `[^\x00-\x7f]`, Source: "v3.4.1 pkg/driver/driver.go splitToList",
				Why: "the driver's flag --tags misreads some letters outside of ASCII as separators; use other letters"},
		)
	}
	table = append(table, accept.Row{Of: accept.Tag, Name: accept.Value, Since: readsSpaces, Except: " $",
		Source: "v3.4.1 pkg/driver/driver.go NewDriver", Why: "the driver's flag --tags trims a space at the end of a value; remove the space"})
	return append(append(table, lists()...), ofUsers()...)
}

const (
	lengths    = "AWS allows keys of 1 to 128 and values of up to 256 characters"
	characters = `[\p{L}\p{Z}\p{N}_.:/=+\-@]*`
)
