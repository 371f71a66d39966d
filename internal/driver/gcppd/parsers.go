package gcppd

import (
	"fmt"
	"regexp"
	"strings"
)

// Maximum numbers of labels and tags of a disk.
const mostLabels, mostTags = 64, 50

func readLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for _, label := range strings.Split(text, ",") {
		parts, err := trimmed(label, "=", labelKey, labelValue)
		if err != nil {
			return nil, err
		}
		labels[parts[0]] = parts[1]
	}
	if len(labels) > mostLabels {
		return nil, fmt.Errorf("%d labels", len(labels))
	}
	return labels, nil
}

func readTags(text string) (map[string]string, error) {
	tags := map[string]string{}
	for _, tag := range strings.Split(text, ",") {
		parts, err := trimmed(tag, "/", tagParent, tagKey, tagValue)
		if err != nil {
			return nil, err
		}
		key := parts[0] + "/" + parts[1]
		if _, twice := tags[key]; twice {
			return nil, fmt.Errorf("%s appears twice", key)
		}
		tags[key] = parts[2]
	}
	if len(tags) > mostTags {
		return nil, fmt.Errorf("%d tags", len(tags))
	}
	return tags, nil
}

// trimmed splits a text into one part for each pattern, trims the parts, and matches them.
func trimmed(text, separator string, patterns ...string) ([]string, error) {
	parts := strings.Split(text, separator)
	if len(parts) != len(patterns) {
		return nil, fmt.Errorf("it has %d parts instead of %d", len(parts), len(patterns))
	}
	for i, pattern := range patterns {
		parts[i] = strings.TrimSpace(parts[i])
		if !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(parts[i]) {
			return nil, fmt.Errorf("part %d does not match", i+1)
		}
	}
	return parts, nil
}
