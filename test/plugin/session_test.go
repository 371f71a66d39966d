package plugin

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	diff "github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/env"
)

// The size of the terminal in the picture of a session.
const (
	columns                          = 96
	letterWidth, lineHeight, padding = 7.83, 18, 16
)

// session records a terminal in which a user finds and mends a fault: status, doctor, the line that doctor prints, status, doctor. The guide has the
// picture. UPDATE=1 records it anew.
func (s *scene) session() {
	s.T.Cleanup(func() { s.Patch(s.standin.DeepCopy(), `{"spec":{"replicas":1}}`) })
	s.Patch(s.standin.DeepCopy(), `{"spec":{"replicas":0}}`)
	s.Until("the fault is named", s.causes(nil, "The operator of driver "+efs+" does not run: its Deployment is scaled to 0."))
	var steps []step
	storage := func(args ...string) {
		text, _ := run(s.T, s.Kubeconfig(), args...)
		steps = append(steps, step{"oc storage " + strings.Join(args, " "), text})
	}
	storage("status")
	storage("doctor")
	mend := []string{"-n", env.OperatorNamespace, "scale", "deployment", env.OperatorName, "--replicas=1"}
	text, err := s.Kubectl(s.T.Context(), mend...)
	env.Must(s.T, err)
	steps = append(steps, step{"oc " + strings.Join(mend, " "), text})
	s.Until("the fault is mended", s.operatorRuns, s.causes(nil))
	storage("status")
	storage("doctor")

	root, err := env.Root()
	env.Must(s.T, err)
	file, got := filepath.Join(root, "docs", "guide", "pictures", "session.svg"), picture(steps)
	if os.Getenv("UPDATE") == "1" {
		env.Must(s.T, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(filepath.Clean(file))
	env.Must(s.T, err)
	// A further check or version alone needs no new picture.
	numbers := regexp.MustCompile(`\d+ checks|\d+\.\d+\.\d+`)
	lines := func(text string) []string { return strings.Split(numbers.ReplaceAllString(text, "N"), "\n") }
	if difference := diff.Diff(lines(string(want)), lines(got)); difference != "" {
		s.T.Errorf("%s is of another session (-want +got); to record it anew: UPDATE=1 make test PKG=./test/plugin RUN=%s\n%s",
			file, "TestDoctorNamesTheCause", difference)
	}
}

// step is a command line and what it prints.
type step struct{ typed, printed string }

// picture draws the steps as an SVG that shows one after the other, unless the reader wants no motion.
func picture(steps []step) string {
	var body strings.Builder
	y, start := padding+13, 0.0
	line := func(class, text string) {
		fmt.Fprintf(&body, "<text class=\"%s\" x=\"%d\" y=\"%d\" style=\"animation-delay:%.1fs\">%s</text>\n", class, padding, y, start, html.EscapeString(text))
		y += lineHeight
	}
	for _, step := range steps {
		line("p", "$ "+step.typed)
		start += 1.2
		for text := range strings.Lines(step.printed) {
			class := "o"
			switch word, _, _ := strings.Cut(text, " "); word {
			case "ERROR":
				class = "e"
			case "DRIVER":
				class = "h"
			}
			for _, part := range wrapped(strings.TrimRight(text, "\n")) {
				line(class, part)
			}
		}
		y += lineHeight / 2
		start += 2.5
	}
	width, height := int(math.Ceil(columns*letterWidth))+2*padding, y+padding-lineHeight
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t">
<title id="t">A terminal: oc storage status and doctor find the fault, and show that it is mended</title>
<!-- test/plugin records this file: UPDATE=1 make test PKG=./test/plugin RUN=TestDoctorNamesTheCause -->
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;white-space:pre;fill:#d6dae0;animation:s .01s both}
.p{fill:#7fd18b}.e{fill:#ff8a80}.h{fill:#9ec1ff}
@keyframes s{from{opacity:0}to{opacity:1}}
@media (prefers-reduced-motion:reduce){text{animation:none}}
</style>
<rect width="%d" height="%d" rx="8" fill="#15181d"/>
%s</svg>
`, width, height, width, height, width, height, body.String())
}

// wrapped breaks a line as a terminal does. An empty line stays one.
func wrapped(text string) []string {
	var parts []string
	letters := []rune(text)
	for len(letters) > columns {
		parts, letters = append(parts, string(letters[:columns])), letters[columns:]
	}
	return append(parts, cmp.Or(string(letters), " "))
}
