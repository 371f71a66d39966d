package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// The size of a plot: two fit beside each other on a wide screen, and one fits on a phone.
const plotWidth, plotHeight = 12 * vg.Centimeter, 8 * vg.Centimeter

// kibibytes and milliseconds are units of reports; plots have MiB and seconds.
const (
	kibibytesInMiB        = 1024
	millisecondsInSeconds = 1000
)

// curve is a line of a plot. What was not measured has no point.
type curve struct {
	title  string
	points map[int]float64
}

// add notes a point, unless it was not measured.
func (c *curve) add(x int, y *float64, unit float64) {
	if y != nil && *y > 0 {
		c.points[x] = *y / unit
	}
}

// picture is a file with curves.
type picture struct {
	file, title, x, y string
	curves            []*curve
}

// Draw makes plots of reports: what our operator needs by the number of SharedVolumes and of nodes.
func Draw(folder string, files []string) error {
	reports, err := readReports(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("make the folder of the plots: %w", err)
	}
	for _, one := range append(sharedPictures(reports), nodePictures(reports)...) {
		if err := one.save(folder); err != nil {
			return err
		}
	}
	return nil
}

func readReports(files []string) ([]Report, error) {
	if len(files) == 0 {
		return nil, errors.New("-draw: name the files of reports")
	}
	reports := make([]Report, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a report: %w", err)
		}
		if err := json.Unmarshal(text, &reports[i]); err != nil {
			return nil, fmt.Errorf("read report %s: %w", file, err)
		}
	}
	return reports, nil
}

func newCurve(title string) *curve { return &curve{title, map[int]float64{}} }

func sharedPictures(reports []Report) []picture {
	ready, peak := newCurve("all are Ready"), newCurve("peak")
	exist, bound, gone := newCurve("volumes and PVCs exist"), newCurve("all are Ready"), newCurve("all are deleted")
	for _, report := range reports {
		for _, shared := range report.Shared {
			for _, result := range shared.Results {
				round := typical(result.Rounds)
				if result.Operator != Ours || round.Share == nil || round.Unshare == nil {
					continue
				}
				ready.add(shared.SharedVolumes, new(float64(round.Share.ResidentKibibytes)), kibibytesInMiB)
				peak.add(shared.SharedVolumes, new(float64(round.Unshare.PeakKibibytes)), kibibytesInMiB)
				exist.add(shared.SharedVolumes, round.Share.Exist, millisecondsInSeconds)
				bound.add(shared.SharedVolumes, round.Share.Ready, millisecondsInSeconds)
				gone.add(shared.SharedVolumes, round.Unshare.Gone, millisecondsInSeconds)
			}
		}
	}
	return []picture{
		{"shared-memory.svg", "Memory of the operator", "SharedVolumes", "MiB", []*curve{ready, peak}},
		{"shared-time.svg", "Time until", "SharedVolumes", "seconds", []*curve{exist, bound, gone}},
	}
}

func nodePictures(reports []Report) []picture {
	rest, peak := newCurve("at rest"), newCurve("peak")
	install, change := newCurve("install"), newCurve("change of all node pods")
	for _, report := range reports {
		for _, scenario := range report.Scenarios {
			for _, result := range scenario.Results {
				if result.Operator != Ours || scenario.Shares > 0 || scenario.OtherVolumes > 0 || result.Converge == nil || result.Idle == nil {
					continue
				}
				rest.add(scenario.Nodes, new(float64(result.Idle.ResidentKibibytes)), kibibytesInMiB)
				peak.add(scenario.Nodes, new(float64(result.Converge.PeakKibibytes)), kibibytesInMiB)
				install.add(scenario.Nodes, new(float64(result.Converge.Requests)), 1)
				if result.Change != nil {
					change.add(scenario.Nodes, new(float64(result.Change.Requests)), 1)
				}
			}
		}
	}
	return []picture{
		{"nodes-memory.svg", "Memory of the operator", "nodes", "MiB", []*curve{rest, peak}},
		{"nodes-requests.svg", "Requests of the operator", "nodes", "requests", []*curve{install, change}},
	}
}

// save writes the picture, if there is more than a point to draw.
func (p picture) save(folder string) error {
	made := plot.New()
	made.Title.Text, made.X.Label.Text, made.Y.Label.Text = p.title, p.x, p.y
	made.X.Min, made.Y.Min = 0, 0
	made.Legend.Top, made.Legend.Left = true, true
	made.Add(plotter.NewGrid())
	var lines []any
	for _, one := range p.curves {
		if len(one.points) > 1 {
			lines = append(lines, one.title, one.sorted())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := plotutil.AddLinePoints(made, lines...); err != nil {
		return fmt.Errorf("draw %s: %w", p.file, err)
	}
	// The last label of the axis is centred under its tick, and the legend is above all lines.
	made.X.Max *= 1.08
	made.Y.Max *= 1.3
	file := filepath.Join(folder, p.file)
	if err := made.Save(plotWidth, plotHeight, file); err != nil {
		return fmt.Errorf("draw %s: %w", p.file, err)
	}
	drawn, err := os.ReadFile(filepath.Clean(file))
	if err == nil {
		err = os.WriteFile(file, styled(drawn), 0o600)
	}
	if err != nil {
		return fmt.Errorf("style %s: %w", p.file, err)
	}
	return nil
}

// style lets a plot follow the colours of the reader's system. It replaces the serif font, whose small letters a phone can't show.
const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif!important}
@media (prefers-color-scheme:dark){text{fill:#eee}path[style*="fill:#FFFFFF"]{fill:#15181d!important}
path[style*="stroke:#000000"]{stroke:#c4c8ce!important}path[style*="stroke:#808080"]{stroke:#3a4048!important}
path[style*="stroke:#F15A60"]{stroke:#ff8a8f!important}path[style*="stroke:#5A9BD4"]{stroke:#8fc4f5!important}
path[style*="stroke:#7AC36A"]{stroke:#8edb7e!important}}
</style>
`

// styled puts the style behind the opening tag of a plot.
func styled(drawn []byte) []byte {
	tag := bytes.Index(drawn, []byte("<svg"))
	if tag < 0 {
		return drawn
	}
	end := tag + bytes.IndexByte(drawn[tag:], '>') + 1
	return slices.Concat(drawn[:end], []byte("\n"+style), bytes.TrimPrefix(drawn[end:], []byte("\n")))
}

func (c *curve) sorted() plotter.XYs {
	var points plotter.XYs
	for x, y := range c.points {
		points = append(points, plotter.XY{X: float64(x), Y: y})
	}
	slices.SortFunc(points, func(a, b plotter.XY) int { return int(a.X - b.X) })
	return points
}
