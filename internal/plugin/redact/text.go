package redact

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Text copies a text line by line. Private keys, and values of YAML that go on in further lines, go as a whole.
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

// lines is Text for a text in memory.
func (r *Redactor) lines(text string) string {
	var out strings.Builder
	// Neither end can fail.
	_ = r.Text(&out, strings.NewReader(text))
	return out.String()
}

// lineState is what the lines before say about the next one.
type lineState struct {
	// inKey says that it is within a private key.
	inKey bool
	// hidden is the column of a name whose value goes on in deeper lines; pending of one that has no value yet; -1 for none.
	hidden, pending int
	// item says that it is the value of a flag, in a list; variable is the column of a field "name" that names something secret, or -1.
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
	if r.goesOn(state, text, indent) {
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
		if found := r.key.FindStringSubmatchIndex(bare); found != nil && r.begins(state, bare, found) {
			r.Count++
			return bare[:found[4]] + Hidden + end
		}
	}
	var clean string
	clean, state.inKey = r.keyed(line, state.inKey)
	return clean
}

// isVariable reports whether a line is the value of the variable that the line before names, and notes where it goes on.
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

// goesOn reports whether a line is the value of the name or the flag in the line before.
func (r *Redactor) goesOn(state *lineState, text string, indent int) bool {
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

// begins notes that a line is a name whose value goes on in the next ones, and reports whether it announces all of it. Found is where the value is.
func (r *Redactor) begins(state *lineState, line string, found []int) bool {
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

// keyed redacts a line that may be within a private key, which may stand in one line.
func (r *Redactor) keyed(line string, inKey bool) (text string, goesOn bool) {
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
