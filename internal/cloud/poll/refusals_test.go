package poll

import (
	"testing"
	"time"
)

func TestARefusalIsKnownForAnIntervalAndOfOneLogin(t *testing.T) {
	var refusals Refusals[string, string]
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		pass       time.Duration
		login, add string
		// want is the recorded reason before add.
		want string
	}{
		{0, "a", "", ""},
		{0, "a", "wrong", ""},
		{time.Minute, "a", "again", "wrong"},
		{time.Minute, "b", "wrong too", ""},
		{2 * time.Minute, "a", "", "wrong"},
		{time.Minute - time.Second, "a", "", ""},
		{0, "b", "", "wrong too"},
		{time.Hour, "b", "", ""},
	} {
		now = now.Add(step.pass)
		if why, refused := refusals.Of(step.login, now); why != step.want || refused != (step.want != "") {
			t.Errorf("%s: %q, %t, want %q", step.login, why, refused, step.want)
		}
		if step.add != "" {
			refusals.Add(step.login, step.add, now)
		}
	}
	if len(refusals.known) > 0 {
		t.Errorf("%d are kept for ever", len(refusals.known))
	}
}
