package azure

import (
	"errors"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// The parameters of classes with tags, and the delimiter between them, which no tag of OpenShift can have.
const (
	tagsParameter      = "tags"
	delimiterParameter = "tagValueDelimiter"
	delimiter          = "|"
)

// Tags is which tags some versions of a driver take. Refused are characters that may not be in keys.
type Tags struct {
	Since, Before string
	Refused       string
	Source        string
}

// AcceptTags are the rows for tags of the versions of a driver. Azure takes keys that differ in case for one.
func AcceptTags(versions ...Tags) accept.Table {
	const (
		limits  = "https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations"
		lengths = "Azure allows keys of 1 to 128 and values of up to 256 characters for storage"
		parser  = "the driver splits tags at |, and drops blanks at both ends"
	)
	table := accept.Table{
		{Of: accept.Tag, Name: accept.Key, Match: `(?s).{1,128}`, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Value, Most: 256, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Key, Except: `[<>%&\\?/]`, Why: `Azure allows no < > % & \ ? / in keys`, Source: limits},
	}
	for _, one := range versions {
		table = append(table,
			accept.Row{Of: accept.Tag, Name: accept.Key, Since: one.Since, Before: one.Before, Source: one.Source,
				Except: `[|=]|` + accept.OuterBlanks, Why: parser},
			accept.Row{Of: accept.Tag, Name: accept.Value, Since: one.Since, Before: one.Before, Source: one.Source,
				Except: `[|]|` + accept.OuterBlanks, Why: parser})
		if one.Refused != "" {
			table = append(table, accept.Row{Of: accept.Tag, Name: accept.Key, Since: one.Since, Before: one.Before, Source: one.Source,
				Except: "[" + strings.NewReplacer(`\`, `\\`, ".", `\.`).Replace(one.Refused) + "]",
				Why:    "this version of the driver takes no " + strings.Join(strings.Split(one.Refused, ""), " ") + " in keys"})
		}
		table = append(table, accept.Row{Of: accept.Tag, Since: one.Since, Before: one.Before, List: list(one.Refused), Source: one.Source})
	}
	return table
}

// list is how a driver reads the parameter tags.
func list(refused string) *accept.List {
	return &accept.List{
		Name: "parameter " + tagsParameter + " of its classes", FoldCase: true, Write: accept.Join(delimiter, "="),
		Read: func(text string) (map[string]string, error) {
			tags, err := accept.Split(delimiter, false)(text)
			for key := range tags {
				if key == "" || strings.ContainsAny(key, refused) {
					return nil, errors.New("the driver makes no volumes with such a key")
				}
			}
			return tags, err
		},
	}
}
