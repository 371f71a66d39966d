package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A failed step ends the proof, and the report says what was left out and why.
func TestTheReportSaysWhatWasSkippedAndWhy(t *testing.T) {
	p := &proof{out: io.Discard, started: time.Now()}
	p.facts.take([]corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelArchStable: "arm64"}}}})
	_ = p.record(t.Context(), "One", func(context.Context) (string, error) { return "a | b\nc", nil })
	_ = p.record(t.Context(), "Two", func(context.Context) (string, error) { return "", skip("no %s", "zone") })
	if err := p.record(t.Context(), "Three", func(context.Context) (string, error) { return "", errors.New("broken") }); err == nil {
		t.Error("a failure was no error")
	}
	text := p.report()
	for _, want := range []string{
		"Of 3 steps, 1 passed, 1 failed, and 1 were skipped.\n", "| Operator | none |", "| Nodes | 1, arm64 |", `| One | passed | 0 | a \| b c |`, "| Two | skipped | 0 | no zone |", "| Three | failed | 0 | broken |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// Without a cluster, any command would be an error.
func TestADriverOfOthersIsNotChanged(t *testing.T) {
	p := &proof{older: "registry.example/catalog:older"}
	for name, do := range map[string]func(context.Context) (string, error){"rollout": p.rollOut, "upgrade": p.upgrade} {
		if _, err := do(t.Context()); err == nil || err.Error() != notOurs {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnknownStepIsRefused(t *testing.T) {
	p := &proof{chosen: "share,instal"}
	if _, err := p.choose(); err == nil || !strings.Contains(err.Error(), `no step "instal"; the steps are install,share,`) {
		t.Errorf("the error is %v", err)
	}
}
