package images

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/test/env"
)

// stage is one FROM of a Containerfile, with what follows it.
type stage struct {
	from, name   string
	instructions []string
}

// stages reads a Containerfile: comments out, continued lines together, blanks as one. An ARG before the first FROM has a stage of
// its own, without a FROM.
func stages(t *testing.T, name string) []stage {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "images", name, "Containerfile"))
	env.Must(t, err)
	found, open := []stage{{}}, ""
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if part, more := strings.CutSuffix(line, `\`); more {
			open += part
			continue
		}
		words := strings.Fields(open + line)
		open = ""
		if words[0] == "FROM" {
			found = append(found, stage{from: words[1], name: words[len(words)-1]})
			continue
		}
		last := &found[len(found)-1]
		last.instructions = append(last.instructions, strings.Join(words, " "))
	}
	if open != "" || len(found) < 2 {
		t.Fatalf("%s: %d stages, and %q at its end", name, len(found), open)
	}
	return found
}

// has reports whether an instruction of a stage matches.
func (s stage) has(pattern string) bool {
	expression := regexp.MustCompile(pattern)
	return slices.ContainsFunc(s.instructions, expression.MatchString)
}

// What efs-utils needs, and the instruction of the last stage that brings it. The last stage is the image; nothing else is in it.
func TestTheBaseHasAllThatEFSUtilsNeeds(t *testing.T) {
	all := stages(t, "aws-efs-utils")
	last := all[len(all)-1]
	rpm := func(name string) string { return `^RUN dnf install [^&]* ` + regexp.QuoteMeta(name) + `( |$)` }
	from := func(stage, source, target string) string {
		return `^COPY --from=` + stage + ` (--chmod=0[0-7]{3} )?` + regexp.QuoteMeta(source) + ` ` + regexp.QuoteMeta(target) + `$`
	}
	const static = "/usr/share/aws-efs-csi-driver/efs-static-files/"
	for what, pattern := range map[string]string{
		"/sbin/mount.efs":            from("source", "/efs-utils/src/mount_efs/__init__.py", "/usr/sbin/mount.efs"),
		"/sbin/mount.s3files":        from("source", "/efs-utils/src/mount_s3files/__init__.py", "/usr/sbin/mount.s3files"),
		"efs_utils_common beside it": from("source", "/efs-utils/src/efs_utils_common", "/usr/sbin/efs_utils_common"),
		"mount_efs beside it":        from("source", "/efs-utils/src/mount_efs", "/usr/sbin/mount_efs"),
		"mount_s3files beside it":    from("source", "/efs-utils/src/mount_s3files", "/usr/sbin/mount_s3files"),
		"watchdog":                   from("source", "/efs-utils/src/watchdog/__init__.py", "/usr/bin/amazon-efs-mount-watchdog"),
		"efs-proxy beside mount.efs": from("proxy", "/target/release/efs-proxy", "/usr/sbin/efs-proxy"),
		"stunnel":                    rpm("stunnel"),
		"stunnel5":                   `ln -s stunnel /usr/bin/stunnel5`,
		"efs-utils.conf":             from("source", "/efs-utils/dist/efs-utils.conf", static),
		"s3files-utils.conf":         from("source", "/efs-utils/dist/s3files-utils.conf", static),
		"efs-utils.crt":              from("source", "/efs-utils/dist/efs-utils.crt", static),
		"mount, umount, nsenter":     rpm("util-linux"),
		"mount.nfs4":                 rpm("nfs-utils"),
		"the openssl program":        rpm("openssl"),
		"python3":                    rpm("python3"),
		"which":                      rpm("which"),
		// The base has them; the build fails if not.
		"df, cat, ls":           `^RUN .*for program in .* df cat ls .*command -v "\$program" \|\| exit 1`,
		"/var/run/efs":          `^RUN mkdir -p .*/var/run/efs `,
		"/var/amazon/efs":       `^RUN mkdir -p .*/var/amazon/efs `,
		"/var/log/amazon/efs":   `^RUN mkdir -p .*/var/log/amazon/efs `,
		"botocore":              from("python", "/python", "/usr/local/lib/python3.9/site-packages"),
		"jmespath for botocore": rpm("python3-jmespath"),
		"dateutil for botocore": rpm("python3-dateutil"),
		"urllib3 for botocore":  rpm("python3-urllib3"),
		"six for dateutil":      rpm("python3-six"),
		"a check of it all":     `^RUN --mount=type=bind,source=images/aws-efs-utils/check_botocore.py,.*env -i python3 /check_botocore.py`,
	} {
		if !last.has(pattern) {
			t.Errorf("%s: no instruction of the last stage brings it: none matches %s", what, pattern)
		}
	}
}

func TestTheToolsOfTheBuildStayBehind(t *testing.T) {
	all := stages(t, "aws-efs-utils")
	last := all[len(all)-1]
	for _, what := range []string{`\bgcc`, `\bcmake`, `\bcargo`, `\bgolang`, `install .*\bgit`, `git clone`, `python3-pip`, `\bpip `, `^COPY /`, `^ADD `} {
		if last.has(what) {
			t.Errorf("the last stage has %s", what)
		}
	}
	for _, s := range all {
		switch s.name {
		case "python":
			if !s.has(`pip install .*--no-deps .*--only-binary=:all: .*--requirement /requirements.txt.ocp$`) {
				t.Errorf("pip may build, or replace what RPMs bring: %v", s.instructions)
			}
		case "proxy":
			for _, tool := range []string{"gcc", "cmake", "golang", "perl"} {
				if !s.has(`dnf install .* ` + tool + `( |$)`) {
					t.Errorf("AWS-LC is built without %s", tool)
				}
			}
			if s.from != "source" || !s.has(`^RUN cargo build .*--locked`) {
				t.Errorf("efs-proxy is built from %s: %v", s.from, s.instructions)
			}
		}
	}
}

// The operator's pods give arguments to the image's own command, and mount folders over its own.
func TestTheDriversImageIsWhatItsPodsExpect(t *testing.T) {
	all := stages(t, "aws-efs-csi-driver")
	last := all[len(all)-1]
	if last.from != "${BASE_IMAGE}" {
		t.Errorf("the base is %s", last.from)
	}
	const static = "/usr/share/aws-efs-csi-driver/efs-static-files"
	if !last.has(`^ENTRYPOINT \["/usr/bin/aws-efs-csi-driver", "--efs-utils-static-files-path=` + static + `"\]$`) {
		t.Errorf("the entry point is another: %v", last.instructions)
	}
	if !last.has(`^COPY --from=driver --chmod=0755 /aws-efs-csi-driver /usr/bin/aws-efs-csi-driver$`) || !last.has(`^USER 0:0$`) {
		t.Errorf("the driver is not there, or not root: %v", last.instructions)
	}
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "internal/driver/awsefs/assets/node.yaml"))
	env.Must(t, err)
	var nodes appsv1.DaemonSet
	env.Must(t, yaml.Unmarshal(text, &nodes))
	container := nodes.Spec.Template.Spec.Containers[0]
	if len(container.Command) > 0 {
		t.Errorf("the pods have a command, %v, and so the static files are looked for in another folder", container.Command)
	}
	for _, mount := range container.VolumeMounts {
		if strings.HasPrefix(static+"/", mount.MountPath+"/") {
			t.Errorf("%s covers the static files", mount.MountPath)
		}
	}
}

// What a file does not pin, it takes from an argument; nothing is "latest", and nothing that is run as a program comes from a bare URL.
func TestContainerfilesNameVersions(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	current, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	bases := map[string]bool{}
	for _, base := range current.Bases {
		bases[base.Argument] = true
	}
	for _, name := range append(slices.Collect(maps.Keys(programs())), "aws-efs-utils", "aws-efs-csi-driver", "csi-operators-catalog") {
		names := []string{"scratch"}
		for _, s := range stages(t, name)[1:] {
			if !strings.HasPrefix(s.from, "${") && !slices.Contains(names, s.from) {
				t.Errorf("%s: FROM %s is no argument and no stage", name, s.from)
			}
			names = append(names, s.name)
		}
		for _, s := range stages(t, name) {
			for _, instruction := range s.instructions {
				if strings.Contains(instruction, ":latest") || regexp.MustCompile(`(?i)(curl|wget)|chmod=0[0-7]*[2367][0-7]? |password|secret`).MatchString(instruction) {
					t.Errorf("%s: %s", name, instruction)
				}
				if strings.Contains(instruction, "git clone") && !regexp.MustCompile(`--branch v\$\{[A-Z_]+_VERSION\} https://github\.com/.* && test `+
					`"\$\(git -C /[a-z-]+ rev-parse HEAD\)" = "\$\{[A-Z_]+_COMMIT\}"$`).MatchString(instruction) {
					t.Errorf("%s: no version, or no commit, in %s", name, instruction)
				}
				if argument, value, _ := strings.Cut(strings.TrimPrefix(instruction, "ARG "), "="); strings.HasPrefix(instruction, "ARG ") {
					if strings.HasSuffix(argument, "_IMAGE") && (value != "" || !bases[argument]) {
						t.Errorf("%s: %s: images.yaml names what others are built on, and a release its digest", name, instruction)
					}
					if strings.HasSuffix(argument, "_COMMIT") && !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(value) {
						t.Errorf("%s: %s is no commit", name, instruction)
					}
				}
				if strings.Contains(instruction, "pip install") && !strings.Contains(instruction, " --require-hashes ") {
					t.Errorf("%s: pip takes what it gets: %s", name, instruction)
				}
			}
		}
	}
}

func TestTheContainerfilesOfProgramsSayWhatTheLayoutsSay(t *testing.T) {
	for name := range programs() {
		all := stages(t, name)
		last := all[len(all)-1]
		for _, pattern := range []string{
			`^COPY --from=build /tree/ /$`, `^USER 65532:65532$`, `^WORKDIR /$`, `^ENV PATH=/usr/bin$`, `^ENTRYPOINT \["/` + program(name) + `"\]$`,
			`^LABEL org.opencontainers.image.title="` + name + `" org.opencontainers.image.version="\$\{VERSION\}" ` +
				`org.opencontainers.image.source="https://github.com/csi-operators/csi-operators" org.opencontainers.image.licenses="Apache-2.0"$`,
		} {
			if !last.has(pattern) {
				t.Errorf("%s: no instruction matches %s: %v", name, pattern, last.instructions)
			}
		}
		if last.from != "scratch" || !all[1].has(`go run ./hack/images -only `+name+` .*-tree /tree$`) {
			t.Errorf("%s is built otherwise than by make images: %v", name, all)
		}
	}
}

// Who adds a program, or a folder, adds the other as well.
func TestEveryImageOfAProgramHasAContainerfileAndATest(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	folders, err := filepath.Glob(filepath.Join(root, "images", "*", "Containerfile"))
	env.Must(t, err)
	var built []string
	for _, folder := range folders {
		// The images of the driver and of the catalog are not made of a program of this repository.
		if name := filepath.Base(filepath.Dir(folder)); !slices.Contains([]string{"aws-efs-csi-driver", "aws-efs-utils", "csi-operators-catalog"}, name) {
			built = append(built, name)
		}
	}
	if want := slices.Sorted(maps.Keys(programs())); !slices.Equal(built, want) {
		t.Errorf("Containerfiles %v, and programs %v", built, want)
	}
}

// One version of Go compiles everything: here, and in the images that a container engine builds.
func TestEveryModuleAsksForTheGoOfTheImages(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	current, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	golang := slices.IndexFunc(current.Bases, func(base release.Image) bool { return base.Argument == "GO_IMAGE" })
	_, version, _ := strings.Cut(current.Bases[golang].Image, ":")
	for _, name := range []string{"go.mod", "tools.mod", "vale.mod", "devcluster/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		env.Must(t, err)
		if !strings.Contains(string(text), "\ntoolchain go"+version+"\n") {
			t.Errorf("%s has no toolchain go%s", name, version)
		}
	}
}

// What pip installs for tests is known by its hash, too.
func TestPipInstallsNothingWithoutAHash(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	for _, name := range []string{"requirements", "requirements-docs"} {
		text, err := os.ReadFile(filepath.Join(root, "test/images", name+".txt"))
		env.Must(t, err)
		packages := regexp.MustCompile(`(?m)^[a-z0-9._-]+==[^ ]+( ; [^\\\n]*)?( \\\n    --hash=sha256:[0-9a-f]{64})*$`).FindAllString(string(text), -1)
		for _, one := range packages {
			if !strings.Contains(one, "--hash=") {
				t.Errorf("%s.txt: %s has no hash", name, one)
			}
		}
		wanted, err := os.ReadFile(filepath.Join(root, "test/images", name+".in"))
		env.Must(t, err)
		for _, line := range regexp.MustCompile(`(?m)^([a-z-]+)(?:\[.*\])?(==.*)$`).FindAllStringSubmatch(string(wanted), -1) {
			if !slices.ContainsFunc(packages, func(one string) bool { return strings.HasPrefix(one, line[1]+line[2]+" ") }) {
				t.Errorf("%[1]s.txt has no %[2]s%[3]s: make it again from %[1]s.in", name, line[1], line[2])
			}
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	env.Must(t, err)
	for line := range strings.Lines(string(makefile)) {
		if strings.Contains(line, "pip install") && !strings.Contains(line, " --require-hashes ") {
			t.Errorf("pip takes what it gets: %s", line)
		}
	}
}
