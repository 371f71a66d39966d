package azure

import (
	"errors"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// tagsParameter and delimiterParameter are parameters of classes. delimiter is the text between two tags. No tag of OpenShift contains it.
const (
	tagsParameter      = "tags"
	delimiterParameter = "tagValueDelimiter"
	delimiter          = "|"
)

// Tags describes the tags that some versions of a driver accept. Refused has the characters that must not be in keys.
type Tags struct {
	Since, Before string
	Refused       string
	Source        string
}

// AcceptTags returns the rows for tags, for each version of a driver. Azure ignores the case of keys.
func AcceptTags(versions ...Tags) accept.Table {
	const (
		limits  = "https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations"
		lengths = "on storage resources, Azure allows tag keys of 1 to 128 characters, and tag values of up to 256"
		parser  = "the driver splits tags at |, and trims spaces"
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

// list describes how a driver parses the parameter with the tags. refused has the characters that the driver refuses in keys.
func list(refused string) *accept.List {
	return &accept.List{
		Name: "parameter " + tagsParameter + " of its classes", FoldCase: true, Write: accept.Join(delimiter, "="),
		Read: func(text string) (map[string]string, error) {
			tags, err := accept.Split(delimiter, false)(text)
			for key := range tags {
				if key == "" || strings.ContainsAny(key, refused) {
					return nil, errors.New("the driver provisions no volumes if a tag has such a key")
				}
			}
			return tags, err
		},
	}
}
