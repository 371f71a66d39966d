package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// copied is a copy of the files that bump reads and writes.
func copied(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, file := range []string{"VERSION", "images/images.yaml", tableFile, containerfile} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(folder, file)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// helpOf is what a program with the flags of the table prints, without some of them and with others.
func helpOf(t *testing.T, name string, without, with []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", tableFile))
	if err != nil {
		t.Fatal(err)
	}
	var table []program
	if err := yaml.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	var help bytes.Buffer
	for _, one := range table {
		if one.Program != name {
			continue
		}
		for _, flag := range append(slices.Sorted(maps.Keys(one.Flags)), with...) {
			if !slices.Contains(without, flag) {
				_, _ = fmt.Fprintf(&help, "  -%s string\n    \twhat it does\n", flag)
			}
		}
	}
	return file(t, help.String())
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func found(pullSpec, _ string) (string, error) {
	if strings.Contains(pullSpec, ":v9.9.9") {
		return "", errors.New("MANIFEST_UNKNOWN")
	}
	return digest, nil
}

func TestANewDriverIsInEveryPlace(t *testing.T) {
	folder := copied(t)
	var out bytes.Buffer
	err := run(&out, []string{
		"-repository", folder, "-image", driver, "-version", "v3.5.0", "-commit", strings.Repeat("a", 40),
		"-help-text", helpOf(t, driver, nil, []string{"new-flag"}),
		"-changes", file(t, "# v3.5.0\n* Rename --unmount-timeout\n* Nicer log\n* AWS_REGION may be empty\n* Fix CVE-2026-1\n"),
	}, found)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"images/images.yaml": "aws-efs-csi-driver:v3.5.0\n    digest: v3.5.0@" + digest + "\n    choice: upstream\n",
		tableFile:            "- program: aws-efs-csi-driver\n  version: \"3.5.0\"\n",
		containerfile:        "ARG DRIVER_COMMIT=" + strings.Repeat("a", 40) + "\n",
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q (%v)", name, want, err)
		}
		if name == containerfile && len(regexp.MustCompile(`(?m)^ARG DRIVER_VERSION=3\.5\.0$`).FindAll(text, -1)) != 2 {
			t.Errorf("%s builds another version:\n%s", name, text)
		}
	}
	for _, want := range []string{"Flags that are not in test/real/testdata/flags.yaml: new-flag. ", "Read: * Rename --unmount-timeout\n", "Read: * AWS_REGION may", "Read: * Fix CVE-2026-1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "Nicer log") {
		t.Errorf("a line that names nothing of ours is shown:\n%s", &out)
	}
}

func TestASidecarThatTestsRunNeedsNoTable(t *testing.T) {
	folder := copied(t)
	var out bytes.Buffer
	if err := run(&out, []string{"-repository", folder, "-image", "csi-provisioner", "-version", "v6.5.0"}, found); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "images/images.yaml"))
	if err != nil || !strings.Contains(string(text), "csi-provisioner:v6.5.0\n    digest: v6.5.0@"+digest+"\n") {
		t.Errorf("the list is (%v)\n%s", err, text)
	}
	if !strings.Contains(out.String(), "test/real runs csi-provisioner") {
		t.Errorf("it says\n%s", &out)
	}
}

func TestAWrongInputChangesNothing(t *testing.T) {
	for want, args := range map[string][]string{
		"has no third-party image nothing: set DRIVER or SIDECAR to one of aws-efs-csi-driver, csi-provisioner": {"-image", "nothing", "-version", "v1.0.0"},
		"is not a version like v1.2.3":                                        {"-image", "csi-provisioner", "-version", "latest"},
		"already has version v6.4.0":                                          {"-image", "csi-provisioner", "-version", "v6.4.0"},
		"name the digest of the image with DIGEST=sha256:…: MANIFEST_UNKNOWN": {"-image", "csi-provisioner", "-version", "v9.9.9"},
		"does not have the form sha256:<64 hexadecimal digits>":               {"-image", "csi-provisioner", "-version", "v6.5.0", "-digest", "abc"},
		"HELP= is missing":                                                    {"-image", "livenessprobe", "-version", "v2.18.0"},
		"livenessprobe v2.18.0 lacks flags that are in test/real/testdata/flags.yaml: probe-timeout. Remove them from this file": {
			"-image", "livenessprobe", "-version", "v2.18.0", "-help-text", helpOf(t, "livenessprobe", []string{"probe-timeout"}, nil),
		},
		"COMMIT= is not a commit: set it to the commit of tag v3.5.0": {"-image", driver, "-version", "v3.5.0", "-help-text", helpOf(t, driver, nil, nil)},
	} {
		folder := copied(t)
		err := run(&bytes.Buffer{}, append([]string{"-repository", folder}, args...), found)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v\nwant %q", args, err, want)
		}
		for _, name := range []string{"images/images.yaml", tableFile, containerfile} {
			before, _ := os.ReadFile(filepath.Join("../..", name))
			after, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("%v: %s has changed (%v)", args, name, err)
			}
		}
	}
}
