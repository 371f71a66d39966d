package env

import (
	"fmt"
	"strconv"
	"strings"
)

// writes adds lines of 32 bytes with a number and the seconds since the machine started, ten a second, and reads each again. A full disk lets it try
// again. It ends at the first line that it does not find. A page of memory holds whole lines, so that a full disk cuts none.
const writes = `n=0
while :; do
  n=$((n+1)); read -r up rest < /proc/uptime
  line=$(printf '%10d %20s' "$n" "$up")
  until echo "$line" >> "$1"; do sleep 0.1; done
  [ "$(tail -n 1 "$1")" = "$line" ] || exit 1
  sleep 0.1
done`

// WriterImage is an image of real nodes in which Writes runs.
const WriterImage = "devcluster.local/busybox:1"

// Writes is the command of a container that adds ten lines a second to a file. See Lines.
func Writes(file string) []string { return []string{"sh", "-c", writes, "writer", file} }

// Lines returns when the lines of Writes were written, in seconds since the machine started. Their numbers must leave none out. A last line
// without its end is still being written, and does not count.
func Lines(text string) ([]float64, error) {
	var found []float64
	for line := range strings.Lines(text) {
		whole, ended := strings.CutSuffix(line, "\n")
		if !ended {
			break
		}
		fields := append(strings.Fields(whole), "", "")
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if want := strconv.Itoa(len(found) + 1); fields[0] != want || err != nil {
			return nil, fmt.Errorf("line %q, want number %s", whole, want)
		}
		found = append(found, seconds)
	}
	return found, nil
}

// Span is a time, in seconds since the machine started.
type Span struct{ From, To float64 }

// Length is how many seconds a span has.
func (s Span) Length() float64 { return s.To - s.From }

// LongestPause is the longest time between two lines.
func LongestPause(times []float64) Span {
	var found Span
	for i := range len(times) - 1 {
		if pause := (Span{times[i], times[i+1]}); pause.Length() > found.Length() {
			found = pause
		}
	}
	return found
}
