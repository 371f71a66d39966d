package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for answer, want := range map[string]string{
		"y\n": "", "YES\n": "", " yes \n": "",
		"\n": "no answer was given; --yes skips the question", "": "no answer was given", "n\n": "was not yes", "yesterday\n": "was not yes",
	} {
		var problems bytes.Buffer
		err := New(genericiooptions.IOStreams{In: strings.NewReader(answer), ErrOut: &problems}).Confirm(t.Context(), false, "Go on?")
		switch {
		case problems.String() != "Go on? [y/N] ":
			t.Errorf("%q: it asks %q", answer, problems.String())
		case want == "" && err != nil:
			t.Errorf("%q: %v", answer, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || Code(err) != Unfinished):
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
	}
}

func TestAQuestionCanBeInterruptedAndLeftOut(t *testing.T) {
	never, _ := io.Pipe()
	p := New(genericiooptions.IOStreams{In: never, ErrOut: io.Discard})
	if err := p.Confirm(t.Context(), true, "Go on?"); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := p.Confirm(ended, false, "Go on?"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
