// Command demo shows a cluster that comes up, and one of two stories: what the EFS operator does, or, with a platform, how a cluster of that
// platform gets its drivers by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
)

func main() {
	platform := flag.String("platform", "", "`platform` of the cluster, as in Infrastructure: AWS, GCP, Azure, OpenStack, VSphere, None, ...; the EFS operator is shown without")
	nodes := flag.Int("nodes", 0, "`number` of nodes; default: 6, or 3 if they are real")
	isReal := flag.String("real", "", "`1` runs the pods on real nodes, 0 fakes them; default: real where the machine can")
	keep := flag.Bool("keep", false, "leave the cluster and its operators running")
	dir := flag.String("dir", "", "`folder` of a cluster that is kept; default: .devcluster of the repository")
	stay := flag.Bool("stay", false, "be the process in the background that keeps the cloud of a cluster that is kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *keep && hasCloud(*platform) && !*stay {
		err = inBackground(ctx, os.Args[1:])
	} else {
		err = run(ctx, options{platform: *platform, nodes: *nodes, keep: *keep, real: *isReal, dir: *dir, stay: *stay})
	}
	stop()
	if err != nil {
		if !errors.Is(err, errPrinted) {
			fmt.Fprintln(os.Stderr, "demo:", err)
		}
		os.Exit(1)
	}
}

// fewestNodes are two of the control plane, for the two pods of a driver's controller, and a worker.
const fewestNodes = 3

// demo is one run.
type demo struct {
	// platform is empty where the EFS operator is shown.
	platform string
	nodes    int
	keep     bool
	// dir is the folder of a cluster that is kept, as asked for; empty for .devcluster.
	dir string
	// real says that all nodes are real: containers run in the pods.
	real    bool
	started time.Time
	cluster *env.Cluster
	// operator is the one that was started beside the cluster, nil if the cluster starts its own.
	operator *env.Operator
	// closeCloud ends the cloud of the cluster; nil if nobody has to ask it. vCenter is the cloud if it is one of vSphere.
	closeCloud func()
	vCenter    *fakevsphere.VCenter
	// said is what was said last of each thing.
	said map[string]string
}

// options are the flags.
type options struct {
	platform string
	nodes    int
	keep     bool
	real     string
	dir      string
	// stay says that this process was started by inBackground.
	stay bool
}

func run(ctx context.Context, asked options) (failure error) {
	if asked.stay {
		// Children of this process must not hold it.
		syscall.CloseOnExec(storyFile)
	}
	d := &demo{platform: asked.platform, nodes: asked.nodes, keep: asked.keep, dir: asked.dir, started: time.Now(), said: map[string]string{}}
	if err := d.chooseReal(ctx, asked.real); err != nil {
		return err
	}
	if d.nodes == 0 {
		d.nodes = map[bool]int{true: fewestNodes, false: fakeNodes}[d.real]
	}
	if d.nodes < fewestNodes {
		return fmt.Errorf("%d nodes are too few: a highly available cluster has at least %d nodes", d.nodes, fewestNodes)
	}
	defer func() {
		if failure != nil && d.operator != nil && ctx.Err() == nil {
			fmt.Println("The operator printed:\n" + d.operator.Output())
		}
		if d.closeCloud != nil {
			d.closeCloud()
		}
		if failure != nil || !d.keep {
			failure = errors.Join(failure, d.stop(ctx))
		}
	}()
	steps := []func(context.Context) error{d.startPlatform, d.apply, d.tellState, d.ageHost, d.diagnose}
	if d.platform == "" {
		steps = []func(context.Context) error{d.startEFS, d.install, d.list, d.share, d.diagnose, d.uninstall}
	}
	if d.platform == "" && d.keep {
		steps = steps[:5]
	}
	for _, step := range steps {
		if err := step(ctx); ctx.Err() != nil {
			return errors.New("interrupted")
		} else if err != nil {
			return err
		}
	}
	if d.keep {
		d.farewell()
	}
	if asked.stay {
		return d.stay(ctx)
	}
	return nil
}

// farewell says how to use the cluster that stays, and to end it.
func (d *demo) farewell() {
	kubectl, down, logs := "bin/devcluster kubectl", "bin/devcluster down", ".devcluster/logs"
	if d.dir != "" {
		kubectl, down, logs = kubectl+" --dir "+d.dir, down+" --dir "+d.dir, filepath.Join(d.dir, "logs")
	}
	commands := []string{kubectl + " get clusteroperator storage", kubectl + " get storage cluster -o yaml", "ls " + logs}
	if d.platform == "" {
		commands = claim(kubectl)
	}
	end := down
	if d.operator != nil {
		end = fmt.Sprintf("kill %d; %s", d.operator.PID(), end)
		d.say("The operator's log is %s.", d.operator.Log)
	}
	if d.closeCloud != nil {
		d.say("The cloud is process %d, and ends with the cluster.", os.Getpid())
	}
	d.say("The cluster and its operators stay. These commands %s. Only your own kubectl needs the first line:",
		map[bool]string{true: "make a SharedVolume and show its bound PVC", false: "show its storage"}[d.platform == ""])
	fmt.Printf("\nexport KUBECONFIG=%s &&\n%s\n\n", d.cluster.Kubeconfig(), strings.Join(commands, " &&\n"))
	d.say("When you have finished, this ends the cluster and all that runs beside it:")
	fmt.Printf("\n%s\n", end)
}

// claim are the commands with which a developer gets a PVC. README has them, too.
func claim(kubectl string) []string {
	return []string{
		kubectl + " apply -f config/samples/sharedvolume.yaml",
		kubectl + " wait sharedvolume/sv1 --for=condition=Ready --timeout=2m",
		kubectl + " get sharedvolumes,persistentvolumeclaims",
	}
}

// startCluster starts the cluster; one that is kept, where bin/devcluster finds it.
func (d *demo) startCluster(ctx context.Context, flags ...string) (err error) {
	flags = append(flags, "--nodes", strconv.Itoa(d.nodes))
	if !d.keep {
		d.cluster, err = env.Start(ctx, flags...)
		return err
	}
	dir := d.dir
	if dir == "" {
		root, err := env.Root()
		if err != nil {
			return err
		}
		dir = filepath.Join(root, ".devcluster")
	}
	d.cluster, err = env.StartIn(ctx, dir, flags...)
	return err
}

// stop ends everything that was started, also when ctx has ended.
func (d *demo) stop(ctx context.Context) (failure error) {
	if d.cluster == nil {
		return nil
	}
	d.say("Stopping the cluster and its operators.")
	if d.operator != nil {
		// Ctrl-C reaches the operator, too, which then gets a second signal and exits with an error.
		if err := d.operator.Stop(); ctx.Err() == nil {
			failure = err
		}
	}
	if err := d.cluster.Stop(context.Background()); err != nil {
		return errors.Join(failure, err)
	}
	d.say("Nothing is left running. \"make demo KEEP=1\" keeps the cluster for you to try, and docs/guide/README.md says how to install on OpenShift.")
	return failure
}

func (d *demo) say(format string, values ...any) {
	fmt.Printf("%6.1f s   %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, values...))
}
