package cloudconfig_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func TestAnErrorNamesTheVCenterOrTheConfiguration(t *testing.T) {
	for server, want := range map[string]string{
		"vc1": "vCenter vc1: log in: no answer", "": "vCenter configuration: log in: no answer",
	} {
		err := &cloudconfig.Error{Server: server, What: "log in", Reason: "NoConnection", Why: "no answer"}
		if got := fmt.Sprintf("%v", err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnErrorIsTheEndOfTheContextThatCausedItAndNoOther(t *testing.T) {
	other := errors.New("another")
	for name, tc := range map[string]struct {
		ended, target error
		is            bool
	}{
		"canceled":        {context.Canceled, context.Canceled, true},
		"late":            {context.DeadlineExceeded, context.DeadlineExceeded, true},
		"late, no cancel": {context.DeadlineExceeded, context.Canceled, false},
		"neither":         {nil, context.Canceled, false},
		"another cause":   {other, other, false},
	} {
		if got := errors.Is(&cloudconfig.Error{Ended: tc.ended}, tc.target); got != tc.is {
			t.Errorf("%s: %t", name, got)
		}
	}
}
