package redact

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Text redacts a text line by line. If a private key or a secret value in YAML has several lines, Text removes all these lines.
func (r *Redactor) Text(out io.Writer, in io.Reader) error {
	lines, state := bufio.NewReader(in), lineState{hidden: -1, pending: -1, variable: -1}
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if _, problem := io.WriteString(out, r.next(&state, line)); problem != nil {
				return fmt.Errorf("write: %w", problem)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
	}
}

// String redacts a text of any number of lines.
func String(text string) string { return New().lines(text) }

// lines does the same as Text, for a text in memory.
func (r *Redactor) lines(text string) string {
	var out strings.Builder
	// Neither the reader nor the writer can fail.
	_ = r.Text(&out, strings.NewReader(text))
	return out.String()
}

// lineState is the state of the redactor between two lines.
type lineState struct {
	// inKey means that the next line is inside a private key.
	inKey bool
	// hidden is the column of a secret's name, if the value continues in the next lines, with deeper indentation. pending is the column of a secret's
	// name, if the value has not begun. A field is -1 if no name is in this state.
	hidden, pending int
	// item means that the next list item is the value of a flag. variable is the column of field "name" of an environment variable whose value is
	// secret, or -1.
	item     bool
	variable int
}

// next redacts the next line.
func (r *Redactor) next(state *lineState, line string) string {
	bare := strings.TrimRight(line, "\r\n")
	text := strings.TrimLeft(bare, " \t")
	indent, end := len(bare)-len(text), line[len(bare):]
	if state.hidden >= 0 && (text == "" || indent > state.hidden) {
		return ""
	}
	state.hidden = -1
	if r.isValueOf(state, text, indent) {
		r.Count++
		lead := ""
		if strings.HasPrefix(text, "- ") {
			lead = "- "
		}
		return bare[:indent] + lead + Hidden + end
	}
	if r.isVariable(state, text, indent) {
		r.Count++
		return bare[:indent] + "value: " + Hidden + end
	}
	if found := r.named.FindStringSubmatchIndex(bare); found != nil {
		state.variable = found[3]
	}
	state.item = r.flag.MatchString(bare)
	if !state.inKey {
		if found := r.key.FindStringSubmatchIndex(bare); found != nil && r.startsValue(state, bare, found) {
			r.Count++
			return bare[:found[4]] + Hidden + end
		}
	}
	var clean string
	clean, state.inKey = r.keyed(line, state.inKey)
	return clean
}

// isVariable reports whether a line has the value of the secret environment variable whose name is on the previous line. If the value begins on the
// next line, or continues there, isVariable records this in argument "state".
func (r *Redactor) isVariable(state *lineState, text string, indent int) bool {
	value, is := strings.CutPrefix(text, "value:")
	is = is && indent == state.variable
	state.variable = -1
	switch value = strings.TrimSpace(value); {
	case !is:
		return false
	case value == "":
		state.pending = indent
		return false
	case value[0] == '|' || value[0] == '>' || !isHarmless(value):
		state.hidden = indent
		return true
	}
	return false
}

// isValueOf reports whether a line is the value of the name or of the flag on the line before.
func (r *Redactor) isValueOf(state *lineState, text string, indent int) bool {
	name, item := state.pending, state.item
	if text == "" {
		return false
	}
	state.pending, state.item = -1, false
	switch {
	case name >= 0 && indent > name && !r.leads.MatchString(text):
		state.hidden = name
		return true
	case name >= 0 && indent >= name && strings.HasPrefix(text, "- ") && !r.leads.MatchString(text[2:]):
		// A header has a list of values.
		state.pending = name
		return true
	}
	return item && strings.HasPrefix(text, "- ") && !strings.HasPrefix(text, "- -")
}

// startsValue records that the value of a name continues on the next lines. It reports whether this line has only the indicator of a block, such as
// "|", and the value begins on the next line. Argument "found" has the place of the value.
func (r *Redactor) startsValue(state *lineState, line string, found []int) bool {
	column := found[3]
	switch {
	case found[4] < 0:
		state.pending = column
	case line[found[4]] == '|' || line[found[4]] == '>':
		state.hidden = column
		return true
	case !isHarmless(line[found[4]:found[5]]) && !r.reason.MatchString(line[found[4]:]):
		state.hidden = column
	}
	return false
}

// keyed redacts a line, and removes a private key that begins on this line or on an earlier line. A whole key can be on one line.
func (r *Redactor) keyed(line string, inKey bool) (text string, continues bool) {
	const begin, end = "-----BEGIN ", "-----END "
	from := strings.Index(line, begin)
	switch {
	case !inKey && from >= 0 && strings.Contains(line[from:], "PRIVATE KEY"):
		r.Count++
		return r.Line(line[:from]) + Hidden + "\n", !strings.Contains(line[from:], end)
	case inKey:
		return "", !strings.Contains(line, end)
	default:
		return r.Line(line), false
	}
}
