package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/artifact"
	"github.com/csi-operators/csi-operators/test/env"
)

// A shell is started as a user starts it, with the completion of oc or kubectl.
type shell struct {
	// args start it, start is the file that it reads first, and rc the text of that file.
	args      []string
	start, rc string
}

// bashCompletion is the library that kubectl's and oc's script for bash needs.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// Each shell prints this word when it waits for a command. The tests' terminal does not colour it.
const prompt = "READY> "

func shells(home, program string) map[string]shell {
	return map[string]shell{
		"bash": {
			[]string{"bash", "--noprofile", "--rcfile", filepath.Join(home, "bashrc"), "-i"}, "bashrc",
			"source " + bashCompletion + "\nsource <(" + program + " completion bash)\nbind 'set enable-bracketed-paste off'\nPS1='" + prompt + "'\n",
		},
		"zsh": {
			[]string{"zsh", "-d", "-i"}, ".zshrc",
			"autoload -Uz compinit && compinit -u -D\nsource <(" + program + " completion zsh)\nunsetopt zle_bracketed_paste prompt_cr prompt_sp\nPS1='" +
				prompt + "'\n",
		},
		"fish": {
			[]string{"fish", "--private", "-i"}, ".config/fish/config.fish",
			program + " completion fish | source\nset -g fish_autosuggestion_enabled 0\nset -g fish_greeting\nfunction fish_prompt; echo -n '" + prompt + "'; end\n",
		},
	}
}

// stroke is what a user types before Tab, and the arguments that the plugin gets when the user then presses Enter.
type stroke struct{ typed, want string }

func strokes() []stroke {
	return []stroke{
		{"docto", "doctor"},
		{"rollout sta", "rollout status"},
		{"status --wat", "status --watch"},
		{"status efs.", "status efs.csi.aws.com"},
		{"share list -n tab-", "share list -n tab-project"},
		{"doctor -n tab-project pvc rep", "doctor -n tab-project pvc reports"},
		{"doctor -n tab-project pod we", "doctor -n tab-project pod web-0"},
		{"doctor pv vol", "doctor pv volume-of-tab"},
		{"share explain -n tab-project --file-system fs-0a", "share explain -n tab-project --file-system fs-0a0a0a0a"},
	}
}

// Users of oc and kubectl press Tab in their shell, which is the real one here, on a terminal. kubectl is the released one, and oc is kubectl's library
// with the name and the prefixes of oc (devcluster/internal/component): oc's module can't be built here.
func TestTabCompletesInRealShells(t *testing.T) {
	s := env.Scene{Cluster: pool.Lend(t), T: t}
	env.Must(t, s.Namespace(t.Context(), "tab-project"))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tab-project"}}
	s.Patch(namespace, `{"metadata":{"annotations":{"`+sharedvolume.AllowedAnnotation+`":"fs-0a0a0a0a/fsap-0a0a0a0a"}}}`)
	volume, pvc, _ := env.Workload()
	volume.Name, volume.Spec.ClaimRef, pvc.Name, pvc.Namespace, pvc.Spec.VolumeName = "volume-of-tab", nil, "reports", "tab-project", "none"
	s.Keep(volume)
	s.Keep(pvc)
	s.Keep(env.Application("tab-project", "web-0", "", "reports"))
	// An unmanaged driver that no operator of this test changes.
	driver := env.EFS(operatorv1.Unmanaged)
	s.Keep(driver)
	for _, program := range []string{"kubectl", "oc"} {
		folder := commands(t, s.Cluster, program)
		for name := range shells("", "") {
			t.Run(program+" in "+name, func(t *testing.T) {
				all := strokes()
				if program == "oc" {
					// The rest of the way is the same.
					all = all[:2]
				}
				in(t, folder, name, program, all)
			})
		}
	}
}

// missing says what this machine lacks for a shell.
func missing(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return "the shell " + name
	}
	if _, err := os.Stat(bashCompletion); name == "bash" && err != nil {
		return "the package bash-completion"
	}
	return ""
}

// once runs a program for the shells. To start kubectl costs most of this test, and what it answers does not depend on the shell that asks. So the shells
// after the first get the answers that the first got to the same arguments. The first command goes through kubectl to the plugin; later commands are
// noted as the plugin notes them.
const once = `#!/bin/sh
set -eu
if [ "$1" = storage ] && ! mkdir %[1]q/reached 2>/dev/null; then
	shift
	printf '%%s\n' "$*" >>%[1]q/calls
elif [ "$1" = storage ]; then
	exec %[1]q/whole/%[2]s "$@"
else
	answer="%[1]s/answers/$*"
	[ -e "$answer" ] || { %[1]q/whole/%[2]s "$@" >"$answer.part" && mv "$answer.part" "$answer"; }
	exec cat "$answer"
fi
`

// commands is a folder with oc, kubectl and what a release has for them. The programs of the plugin write down how they are called.
func commands(t *testing.T, cluster *env.Cluster, program string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"whole", "answers"} {
		env.Must(t, os.Mkdir(filepath.Join(folder, name), 0o700))
	}
	env.Must(t, cluster.Kubectls(filepath.Join(folder, "whole")))
	env.Must(t, os.WriteFile(filepath.Join(folder, program), fmt.Appendf(nil, once, folder, program), 0o700))
	plugin, err := env.Binary("oc-storage")
	env.Must(t, err)
	notes := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in __complete) exec %q \"$@\" ;; esac\nprintf '%%s\\n' \"$*\" >>%q\n", plugin, filepath.Join(folder, "calls"))
	archive, err := artifact.Plugin(release.Platforms()[0], []byte(notes), nil)
	env.Must(t, err)
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	env.Must(t, err)
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		env.Must(t, err)
		text, err := io.ReadAll(files)
		env.Must(t, err)
		// Someone with kubectl alone has no file for oc, and the other way round.
		if strings.HasPrefix(header.Name, program) {
			env.Must(t, os.WriteFile(filepath.Join(folder, header.Name), text, 0o700))
		}
	}
}

// terminal runs a program on a terminal of its own, whose keyboard and screen are the standard streams.
const terminal = `import pty, sys
sys.exit(pty.spawn(["sh", "-c", 'stty rows 50 columns 200; exec "$0" "$@"'] + sys.argv[1:]) >> 8)`

// in types the strokes into a shell, each with Tab and Enter, and compares how the plugin is called.
func in(t *testing.T, folder, name, program string, all []stroke) {
	t.Helper()
	if lacks := missing(name); lacks != "" {
		if os.Getenv("SHELLS") != "" {
			t.Fatal("this machine lacks " + lacks)
		}
		t.Skip("this machine lacks " + lacks)
	}
	home, calls := t.TempDir(), filepath.Join(folder, "calls")
	env.Must(t, os.WriteFile(calls, nil, 0o600))
	one := shells(home, program)[name]
	env.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, one.start)), 0o700))
	env.Must(t, os.WriteFile(filepath.Join(home, one.start), []byte(one.rc), 0o600))
	command := exec.CommandContext(t.Context(), "python3", append([]string{"-c", terminal}, one.args...)...)
	command.Dir = home
	command.Env = []string{"HOME=" + home, "ZDOTDIR=" + home, "TERM=xterm", "LC_ALL=C.UTF-8", "PATH=" + folder + ":" + os.Getenv("PATH")}
	shown := &screen{}
	command.Stdout, command.Stderr = shown, shown
	keyboard, err := command.StdinPipe()
	env.Must(t, err)
	env.Must(t, command.Start())
	var got, want []string
	for i, stroke := range all {
		env.Eventually(t, "the shell waits for a command", func() error { return shown.waits(i + 1) })
		_, err := io.WriteString(keyboard, program+" storage "+stroke.typed+"\t\r")
		env.Must(t, err)
		want = append(want, stroke.want)
		env.Eventually(t, "the plugin is called", func() error {
			text, err := os.ReadFile(calls)
			got = strings.Split(strings.TrimSpace(string(text)), "\n")
			if err == nil && (len(got) <= i || got[i] == "") {
				return fmt.Errorf("%d calls:\n%s", len(got)-1, shown)
			}
			return err
		})
	}
	env.Eventually(t, "the shell waits for the end", func() error { return shown.waits(len(all) + 1) })
	_, err = io.WriteString(keyboard, "exit\r")
	env.Must(t, err)
	env.Must(t, command.Wait())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls of the plugin (-want +got):\n%s\n%s", diff, shown)
	}
}

// screen is what the shell has printed.
type screen struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (s *screen) Write(text []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(text)
}

func (s *screen) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fmt.Sprintf("%q", s.text.String())
}

// waits checks that the shell has printed its prompt this often. fish and zsh also print it when they draw a line anew, so the count is a lower limit.
func (s *screen) waits(times int) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if count := strings.Count(s.text.String(), prompt); count < times {
		return fmt.Errorf("%d prompts: %q", count, s.text.String())
	}
	return nil
}
