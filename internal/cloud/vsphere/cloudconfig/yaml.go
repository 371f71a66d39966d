package cloudconfig

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML parses the newer format (types_yaml.go of k8s.io/cloud-provider-vsphere). This format has no workspace. It rejects anchors, aliases, tags,
// merge keys and duplicate keys, because YAML parsers disagree on them.
func readYAML(text string) (*rawFile, problem) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil || len(document.Content) != 1 {
		return nil, problem{lineOf(err), "is neither INI nor YAML"}
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, problem{why: "has more than one document"}
	}
	root := document.Content[0]
	if found := check(root); found.why != "" {
		return nil, found
	}
	if root.Kind != yaml.MappingNode {
		return nil, problem{root.Line, "is neither INI nor a YAML map"}
	}
	file := &rawFile{}
	return file, each(root, func(key string, value *yaml.Node) problem {
		switch key {
		case "global":
			file.global.line = value.Line
			return file.global.readYAML(value)
		case "vcenter":
			return file.readCenters(value)
		case "labels":
			return each(value, func(key string, value *yaml.Node) (found problem) {
				switch key {
				case "zone":
					file.zone, found = scalar(value)
				case "region":
					file.region, found = scalar(value)
				}
				return found
			})
		}
		return problem{}
	})
}

func (f *rawFile) readCenters(node *yaml.Node) problem {
	return each(node, func(key string, value *yaml.Node) problem {
		center := &rawCenter{name: key, line: value.Line}
		f.centers = append(f.centers, center)
		if found := center.readYAML(value); found.why != "" {
			return found
		}
		if center.server == "" {
			return problem{center.line, "has a vCenter without server"}
		}
		return problem{}
	})
}

// readYAML sets the keys of GlobalYAML or VirtualCenterConfigYAML.
func (c *rawCenter) readYAML(node *yaml.Node) problem {
	return each(node, func(key string, value *yaml.Node) (found problem) {
		switch key {
		case "server":
			c.server, found = scalar(value)
		case "caFile":
			c.caFile, found = scalar(value)
		case "thumbprint":
			c.thumbprint, found = scalar(value)
		case "port":
			c.port, found = scalar(value)
			switch {
			case found.why == "" && c.port != "" && value.Tag != "!!int":
				return problem{value.Line, "has a port that is not a number"}
			case c.port == "0":
				c.port = ""
			}
		case "insecureFlag":
			c.insecure = value.Value == "true"
			if value.Kind != yaml.ScalarNode || value.Style != 0 || value.Value != "true" && value.Value != "false" {
				return problem{value.Line, "has an insecureFlag that is neither true nor false"}
			}
		case "datacenters":
			c.datacenters, found = list(value)
		}
		return found
	})
}

// check rejects ambiguous syntax in the whole document.
func check(node *yaml.Node) problem {
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		return problem{node.Line, "has an anchor or an alias"}
	case node.Style&yaml.TaggedStyle != 0:
		return problem{node.Line, "has a tag"}
	}
	lines := map[string]int{}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			name := strings.ToLower(child.Value)
			switch {
			case child.Kind != yaml.ScalarNode || child.Tag == "!!merge":
				return problem{child.Line, "has a key that is not a name"}
			case lines[name] != 0:
				return problem{child.Line, fmt.Sprintf("repeats the key of line %d", lines[name])}
			}
			lines[name] = child.Line
		}
		if found := check(child); found.why != "" {
			return found
		}
	}
	return problem{}
}

// each calls function "do" for each key of a map. It treats a missing value and null as empty maps.
func each(node *yaml.Node, do func(key string, value *yaml.Node) problem) problem {
	switch {
	case isNull(node):
		return problem{}
	case node.Kind != yaml.MappingNode:
		return problem{node.Line, "is not a map"}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if found := do(node.Content[i].Value, node.Content[i+1]); found.why != "" {
			return found
		}
	}
	return problem{}
}

// scalar returns a scalar's text. It converts no types, so 007 and true remain strings.
func scalar(node *yaml.Node) (string, problem) {
	switch {
	case isNull(node):
		return "", problem{}
	case node.Kind != yaml.ScalarNode:
		return "", problem{node.Line, "has a list or a map instead of a string"}
	case strings.ContainsFunc(node.Value, invisible):
		return "", problem{node.Line, "has invisible characters"}
	}
	return node.Value, problem{}
}

// list reads a list of strings. It rejects an item with a comma, because the cloud provider joins the items with commas.
func list(node *yaml.Node) ([]string, problem) {
	if isNull(node) {
		return nil, problem{}
	}
	if node.Kind != yaml.SequenceNode {
		return nil, problem{node.Line, "must be a list"}
	}
	var texts []string
	for _, item := range node.Content {
		text, found := scalar(item)
		switch {
		case found.why != "":
			return nil, found
		case strings.Contains(text, ","):
			return nil, problem{item.Line, "has a comma in the name of a datacenter"}
		}
		texts = append(texts, text)
	}
	return listOf(strings.Join(texts, ",")), problem{}
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// lineOf returns the line number in a parser's error. It drops the rest of the error, which can quote a password.
func lineOf(err error) int {
	if err == nil {
		return 0
	}
	match := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error())
	if match == nil {
		return 0
	}
	line, err := strconv.Atoi(match[1])
	if err != nil {
		return 0
	}
	return line
}
