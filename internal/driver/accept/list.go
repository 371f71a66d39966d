package accept

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pair is a tag or label.
type Pair struct{ Key, Value string }

// List describes how a driver parses tags or labels from one text. Read behaves like the driver's own parser.
type List struct {
	// Name describes the flag or parameter in messages. Flag, if set, is the flag whose whole value Read parses.
	Name, Flag string
	// FoldCase means that the cloud ignores the case of keys.
	FoldCase bool
	Write    func(pairs []Pair) string
	Read     func(text string) (map[string]string, error)
}

// Refused is a rejected pair, with the reason.
type Refused struct {
	Pair
	Why string
}

// List returns how the driver parses tags or labels. It returns nil if the driver accepts no tags or labels.
func (t Table) List(of Subject) *List {
	for _, row := range t {
		if row.Of == of && row.List != nil {
			return row.List
		}
	}
	return nil
}

// Filter keeps the pairs that the driver reads back unchanged, and refuses all other pairs. own has the keys that the driver itself sets. If the
// driver accepts no pairs, Filter returns none.
func (t Table) Filter(of Subject, pairs []Pair, own ...string) (kept []Pair, refused []Refused) {
	list := t.List(of)
	if list == nil {
		return nil, nil
	}
	for _, pair := range pairs {
		if why := t.whyNot(of, list, kept, pair, own); why != "" {
			refused = append(refused, Refused{pair, why})
			continue
		}
		kept = append(kept, pair)
	}
	return kept, refused
}

func (t Table) whyNot(of Subject, list *List, kept []Pair, pair Pair, own []string) string {
	same := func(other Pair) bool {
		return other.Key == pair.Key || list.FoldCase && strings.EqualFold(other.Key, pair.Key)
	}
	if why := cmp.Or(t.Refusal(of, Key, pair.Key), t.Refusal(of, Value, pair.Value)); why != "" {
		return why
	}
	switch {
	case slices.Contains(own, pair.Key):
		return "the driver sets this key itself"
	case slices.ContainsFunc(kept, same) && list.FoldCase:
		return "another key differs only in upper and lower case"
	case slices.ContainsFunc(kept, same):
		return "the key is a duplicate"
	}
	read, err := list.Read(list.Write([]Pair{pair}))
	if value, found := read[pair.Key]; err != nil || !found || value != pair.Value || len(read) != 1 {
		return fmt.Sprintf("the driver would read another key or value from %s", list.Name)
	}
	return ""
}

// Text returns all pairs in one text, sorted. The text is empty if there are no pairs.
func (l *List) Text(pairs []Pair) string {
	if l == nil || len(pairs) == 0 {
		return ""
	}
	sorted := slices.Clone(pairs)
	slices.SortFunc(sorted, func(a, b Pair) int { return cmp.Compare(l.Write([]Pair{a}), l.Write([]Pair{b})) })
	return l.Write(sorted)
}

// Join returns a function that writes pairs into one text. Separator "between" is between two pairs. Separator "within" is between the key and the
// value.
func Join(between, within string) func([]Pair) string {
	return func(pairs []Pair) string {
		texts := make([]string, 0, len(pairs))
		for _, pair := range pairs {
			texts = append(texts, pair.Key+within+pair.Value)
		}
		return strings.Join(texts, between)
	}
}

// Split returns a function that reads pairs as most drivers do. The function splits the text at separator "between", splits each part at the first
// "=", and trims spaces. If skipEmpty is true, the function skips empty parts. If skipEmpty is false, an empty part is an error.
func Split(between string, skipEmpty bool) func(string) (map[string]string, error) {
	return func(text string) (map[string]string, error) {
		pairs := map[string]string{}
		for _, part := range strings.Split(text, between) {
			if part == "" && skipEmpty {
				continue
			}
			key, value, found := strings.Cut(part, "=")
			if !found {
				return nil, errors.New("a part has no =")
			}
			pairs[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
		return pairs, nil
	}
}
