package env

import (
	"slices"
	"strings"
	"testing"
)

func TestAMissingOrCutLineIsFound(t *testing.T) {
	const good = "         1                 7.10\n         2                 7.21\n         3                 9.00\n"
	for name, test := range map[string]struct {
		text string
		want []float64
		says string
	}{
		"all":        {good, []float64{7.1, 7.21, 9}, ""},
		"none":       {"", nil, ""},
		"unfinished": {good + "         4      ", []float64{7.1, 7.21, 9}, ""},
		"left out":   {strings.Replace(good, "         2                 7.21\n", "", 1), nil, "want number 2"},
		"twice":      {good + "         3                 9.10\n", nil, "want number 4"},
		"cut":        {strings.Replace(good, "7.21\n", "\n", 1), nil, "want number 2"},
		"zeros":      {good + "\x00\x00\n", nil, "want number 4"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Lines(test.text)
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("error %v, want %q in it", err, test.says)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestTheLongestPauseIsBetweenTwoLines(t *testing.T) {
	if got := LongestPause([]float64{1, 1.5, 4, 5}); got != (Span{1.5, 4}) {
		t.Errorf("got %v", got)
	}
	if got := LongestPause([]float64{1}); got.Length() != 0 {
		t.Errorf("got %v of one line", got)
	}
}
