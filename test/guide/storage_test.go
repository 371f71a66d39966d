package guide

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
)

// What an administrator does with the storage that comes with a cluster. Each command finds it healthy, and leaves it so.
func TestTheCommandsOfTheClustersStorageWork(t *testing.T) {
	const version = "4.21.0"
	root, err := env.Root()
	env.Must(t, err)
	programs, err := env.ReleasePrograms(env.RaceAsked(), version)
	env.Must(t, err)
	cluster, err := env.Start(t.Context(), append(programs, "--nodes", "3", "--platform", "GCP")...)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, cluster.Stop(context.Background())) })
	env.Must(t, cluster.ApplyRelease(t.Context(), env.Release{Version: version}))
	home := surroundings(t, cluster, root)
	commands := blocks(t, root, "cluster-storage.md")
	if len(commands) < 12 {
		t.Errorf("%d command blocks were found in the guide: the fences are not read", len(commands))
	}
	for _, b := range commands {
		t.Run(b.Place, func(t *testing.T) {
			env.Eventually(t, "storage is healthy", func() error { return cluster.Reached(t.Context(), version) })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.Text)
			command.Dir, command.WaitDelay = home, time.Second
			command.Env = append(os.Environ(), "PATH="+home+string(os.PathListSeparator)+os.Getenv("PATH"))
			output, err := command.CombinedOutput()
			if err != nil || len(output) == 0 {
				t.Errorf("%v\n%s\n%s", err, b.Text, output)
			}
		})
	}
	env.Eventually(t, "storage is healthy in the end", func() error { return cluster.Reached(t.Context(), version) })
}
