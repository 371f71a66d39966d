package vspherehealth

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheGuideHasEveryCheckWithItsSeverities(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/vsphere-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(cells[1], " `") {
			listed[strings.Trim(cells[1], " `")] += cells[3]
		}
	}
	for _, check := range checks() {
		severities, found := listed[string(check.name)]
		if !found || !strings.Contains(severities, "`"+check.most.String()+"`") {
			t.Errorf("%s: the guide has severities %q, the check gives %s at most", check.name, severities, check.most)
		}
		if check.most < degrade && strings.Contains(severities, "`"+degrade.String()+"`") {
			t.Errorf("%s: the guide says that it degrades", check.name)
		}
		delete(listed, string(check.name))
	}
	for name := range listed {
		t.Errorf("the guide has %s, which is no check", name)
	}
}

// A check of which no alert knows would be found by nobody, and two alerts would say the same.
func TestEveryCheckHasOneAlert(t *testing.T) {
	text, err := os.ReadFile("../../release/payload/assets/monitoring/03_alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	selectors := regexp.MustCompile(MetricFindings+`\{check(=|=~|!~)"([^"]*)"\}`).FindAllStringSubmatch(string(text), -1)
	if len(selectors) < 6 {
		t.Fatalf("selectors %v", selectors)
	}
	for _, check := range checks() {
		want, got := 1, 0
		if check.name == existingDriver || check.name == vCenterVersion {
			// Their alerts read metrics that OpenShift's programs have, too.
			want = 0
		}
		for _, selector := range selectors {
			if regexp.MustCompile("^("+selector[2]+")$").MatchString(string(check.name)) == (selector[1] != "!~") {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d alerts, want %d", check.name, got, want)
		}
	}
}
