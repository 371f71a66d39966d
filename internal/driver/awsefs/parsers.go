package awsefs

import (
	"errors"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// lists returns the driver's parsers of --tags. The oldest parser knows no escapes, and drops all tags if one tag lacks a colon.
func lists() accept.Table {
	list := func(escapes *strings.Replacer, read func(string) (map[string]string, error)) *accept.List {
		return &accept.List{Name: "its flag --tags", Flag: "--tags", Read: read, Write: func(pairs []accept.Pair) string {
			escaped := make([]accept.Pair, 0, len(pairs))
			for _, pair := range pairs {
				escaped = append(escaped, accept.Pair{Key: escapes.Replace(pair.Key), Value: escapes.Replace(pair.Value)})
			}
			return accept.Join(" ", ":")(escaped)
		}}
	}
	return accept.Table{
		{Of: accept.Tag, Before: readsColons, List: list(strings.NewReplacer(), readPlain), Source: "v2.1.11 pkg/driver/driver.go parseTagsFromStr"},
		{Of: accept.Tag, Since: readsColons, Before: readsSpaces, List: list(strings.NewReplacer(":", `\:`), readEscapedColons),
			Source: "v2.1.15 pkg/driver/driver.go parseTagsFromStr"},
		{Of: accept.Tag, Since: readsSpaces, List: list(strings.NewReplacer(`\`, `\\`, ":", `\:`, " ", `\ `), readEscaped),
			Source: "v3.4.1 pkg/driver/driver.go parseTagsFromStr, splitToList"},
	}
}

// errDropped means that the driver would drop all tags because of this text.
var errDropped = errors.New("the driver drops all tags")

func readPlain(text string) (map[string]string, error) {
	tags := map[string]string{}
	for _, tag := range strings.Split(strings.TrimSpace(text), " ") {
		parts := strings.Split(tag, ":")
		if len(parts) == 1 {
			return nil, errDropped
		}
		tags[parts[0]] = parts[1]
	}
	return tags, nil
}

// readEscapedColons parses tags as some versions of the driver do. A value ends at the second unescaped colon of the tag. The driver ignores the rest
// of the tag.
func readEscapedColons(text string) (map[string]string, error) {
	tags := map[string]string{}
	for _, tag := range strings.Split(strings.TrimSpace(text), " ") {
		key, rest, err := untilColon(tag)
		if err != nil {
			return nil, err
		}
		if tags[key], _, err = untilColon(rest); err != nil {
			return nil, err
		}
	}
	return tags, nil
}

// untilColon reads up to an unescaped colon. If the text ends with a backslash, the driver drops all tags.
func untilColon(text string) (before, after string, err error) {
	var read strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ':':
			return read.String(), text[i+1:], nil
		case c == '\\' && i+1 == len(text):
			return "", "", errDropped
		case c == '\\' && text[i+1] == ':':
			i++
			read.WriteByte(':')
		default:
			read.WriteByte(c)
		}
	}
	return read.String(), "", nil
}

// readEscaped skips a tag with several unescaped colons. A tag without an unescaped colon gets an empty value.
func readEscaped(text string) (map[string]string, error) {
	tags := map[string]string{}
	list, err := split(strings.TrimSpace(text), ' ')
	for _, tag := range list {
		parts, problem := split(tag, ':')
		switch {
		case problem != nil || tag == "":
			// The driver continues with the next tag.
		case len(parts) == 1:
			tags[parts[0]] = ""
		case len(parts) == 2:
			tags[parts[0]] = parts[1]
		}
	}
	return tags, err
}

// split splits at a separator. A backslash escapes the separator and itself.
func split(text string, separator byte) ([]string, error) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 == len(text):
			return nil, errDropped
		case c == '\\' && (text[i+1] == separator || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case c == separator:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(parts, part.String()), nil
}
