package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// most is the number of words that a sentence may have.
const most = 24

// text is a piece of prose: a paragraph, an item of a list, a cell of a table, or a heading.
type text struct {
	line  int
	words string
}

// fault is something wrong in a page.
type fault struct {
	line int
	// long says that the sentence is too long, and not that it has a wrong word.
	long bool
	text string
}

// tally is how many faults of each kind a page has.
type tally struct{ long, words int }

// more reports whether there are more faults of a kind than in another tally.
func (t tally) more(than tally) bool { return t.long > than.long || t.words > than.words }

func count(found []fault) tally {
	var t tally
	for _, one := range found {
		if one.long {
			t.long++
		} else {
			t.words++
		}
	}
	return t
}

// texts are the prose of a page in Markdown, without code.
func texts(page string) []text {
	fence := regexp.MustCompile("^\\s*(```|~~~)")
	item := regexp.MustCompile(`^\s*([*-]|\d+\.)\s+`)
	var found []text
	open, inCode := false, false
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence.MatchString(line):
			inCode, open = !inCode, false
		case inCode:
		case trimmed == "" || strings.HasPrefix(trimmed, "<!--"):
			open = false
		case strings.HasPrefix(trimmed, "|"):
			open = false
			for _, cell := range strings.Split(strings.Trim(trimmed, "|"), "|") {
				found = append(found, text{i + 1, cell})
			}
		case strings.HasPrefix(trimmed, "#"):
			open = false
			found = append(found, text{i + 1, strings.TrimLeft(trimmed, "# ")})
		case item.MatchString(line):
			open = true
			found = append(found, text{i + 1, item.ReplaceAllString(line, "")})
		case open:
			found[len(found)-1].words += " " + trimmed
		default:
			open = true
			found = append(found, text{i + 1, trimmed})
		}
	}
	return found
}

// sentences are those of a text. A name in backticks is one word, a link is its text, and links between middle dots are no sentence.
func sentences(prose string) []string {
	prose = regexp.MustCompile("`[^`]*`").ReplaceAllString(prose, "CODE")
	prose = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(prose, "$1")
	prose = strings.NewReplacer("**", "", "*", "", "e.g.", "eg", "i.e.", "ie").Replace(prose)
	end := regexp.MustCompile(`[.!?]["')]*\s+|\s·\s?|:$`)
	var found []string
	for _, sentence := range end.Split(prose, -1) {
		if sentence = strings.TrimSpace(sentence); sentence != "" {
			found = append(found, sentence)
		}
	}
	return found
}

// length is the number of words of a sentence.
func length(sentence string) int {
	words := 0
	for word := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			words++
		}
	}
	return words
}

// faults are what is wrong in a page.
func faults(page string) []fault {
	var found []fault
	words := refused()
	for _, piece := range texts(page) {
		for _, sentence := range sentences(piece.words) {
			if n := length(sentence); n > most {
				found = append(found, fault{piece.line, true, fmt.Sprintf("%d words, at most %d: %s", n, most, shorten(sentence))})
			}
			for _, rule := range words {
				for _, match := range rule.pattern.FindAllString(sentence, -1) {
					found = append(found, fault{piece.line, false, fmt.Sprintf("%q: write %s", match, rule.better)})
				}
			}
		}
	}
	return found
}

// shorten is the beginning of a sentence.
func shorten(sentence string) string {
	const enough = 70
	if runes := []rune(sentence); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return sentence
}
