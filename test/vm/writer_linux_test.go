package vm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// A program writes ten lines a second to a mount of EFS' options, through all that cuts it off its file system. It waits, and loses nothing.
func TestAWriterSurvivesServerAndTunnel(t *testing.T) {
	r := boot(t)
	if got := r.sh("cat /sys/fs/cgroup/cgroup.controllers"); !strings.Contains(got, "memory") || !strings.Contains(got, "pids") {
		t.Fatalf("cgroup v2 has the controllers %q", got)
	}
	s := r.share("data", 20049)
	if got := r.sh("cat /proc/self/mountinfo"); !strings.Contains(got, "vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,noresvport,proto=tcp,port=20049,timeo=600,retrans=2") {
		t.Fatalf("the mount has other options than EFS': %s", got)
	}
	r.beside(false, env.Writes(s.at()+"/lines")...)
	table := "event | longest stall in s | lines | lost"
	for _, event := range []struct {
		name          string
		begin, finish func()
	}{
		{"nothing", func() {}, func() {}},
		{"kill -9 of the tunnel, and its restart", func() { s.signal("-KILL") }, s.open},
		{"a tunnel that answers nothing", func() { s.signal("-STOP") }, func() { s.signal("-CONT") }},
		{"stop and start of the server", func() { s.threads("0") }, func() { s.threads("1") }},
	} {
		before := s.goesOn(10)
		event.begin()
		begun := r.now()
		if event.name != "nothing" {
			s.stalls()
		}
		finished := r.now()
		event.finish()
		after := s.goesOn(len(before) + 20)
		// What was under way when it began may still have ended. From then on, each line comes after the end.
		within := 0
		for _, at := range after {
			if at > begun && at < finished {
				within++
			}
		}
		if pause := env.LongestPause(after[len(before)-1:]); event.name == "nothing" {
			table += fmt.Sprintf("\n%s | %.2f | %d | 0", event.name, pause.Length(), len(after)-len(before))
		} else if within > 1 || pause.From > begun+0.5 || pause.To < finished {
			t.Errorf("%s from %.2f to %.2f: %d lines meanwhile, and the longest pause is %v", event.name, begun, finished, within, pause)
		} else {
			table += fmt.Sprintf("\n%s for %.1f s | %.2f | %d | 0", event.name, finished-begun, pause.Length(), len(after)-len(before))
		}
	}
	t.Log("\n" + table)
}

// lines are the times of the lines that the server has on its disk. Their numbers leave none out.
func (s *share) lines() []float64 {
	s.Helper()
	found, err := env.Lines(s.sh("cat /disk/" + s.name + "/lines"))
	env.Must(s.T, err)
	return found
}

// goesOn waits until there are more lines than that, and returns them.
func (s *share) goesOn(than int) []float64 {
	s.Helper()
	s.eventually("lines", `[ "$(wc -l < "/disk/$1/lines")" -gt "$2" ]`, s.name, fmt.Sprint(than))
	return s.lines()
}

// stalls waits until no line comes for two seconds.
func (s *share) stalls() {
	s.Helper()
	env.Eventually(s.T, "the writer waits", func() error {
		found := s.lines()
		if now := s.now(); now-found[len(found)-1] < 2 {
			return fmt.Errorf("at %.2f, the last line is of %.2f", now, found[len(found)-1])
		}
		return nil
	})
}

// What the writer has read back is on the server's disk: the node with the mount, and with the server, loses its power, and boots again.
func TestAPowerCutLosesNoLineThatWasWritten(t *testing.T) {
	r := boot(t)
	s := r.share("data", 20049)
	r.beside(false, env.Writes(s.at()+"/lines")...)
	before := len(s.goesOn(50))
	r.off()
	r.on()
	s = r.share("data", 20049)
	// The last line may still have been on its way to the disk.
	after := len(s.lines())
	if after < before-1 {
		t.Errorf("%d lines are left of %d", after, before)
	}
	t.Logf("%d lines were seen before the power cut, and %d are on the disk", before, after)
	r.beside(false, env.Writes(s.at()+"/again")...)
	r.eventually("lines after the power cut", `[ "$(wc -l < /disk/data/again)" -gt 10 ]`)
}
