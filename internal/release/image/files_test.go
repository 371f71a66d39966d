package image_test

import (
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func TestWhatMustNotBeInAnImageIsRefused(t *testing.T) {
	const key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
	// The texts are put together here, so that nobody who looks for secrets finds them in this file.
	begin := "-----BEGIN RSA " + "PRIVATE KEY-----"
	access, jwt := "AKIA"+"QYLPMN5HHHHHHHHH", "eyJ"+"hbGciOiJSUzI1NiJ9."+"eyJ"+"zdWIiOiJ0aGluZyJ9."+"c2lnbmF0dXJl"
	for name, example := range map[string]struct {
		path, content string
		mode          fs.FileMode
		want          string
	}{
		"world-writable":       {"a", "", 0o666, "/a: mode 0666 lets users other than root write it"},
		"writable by group 0":  {"a", "", 0o464, "/a: mode 0464 lets users other than root write it"},
		"setuid":               {"a", "", 0o555 | fs.ModeSetuid, "setuid"},
		"setuid, in octal":     {"a", "", 0o4555, "setuid"},
		"a private key":        {"a/b", "x\n" + begin + "\n" + key, 0o444, "/a/b: the file holds a private key"},
		"an encrypted key":     {"a", begin + "\nProc-Type: 4,ENCRYPTED", 0o444, "private key"},
		"a key in a program":   {"a", "\x7fELF\x00" + begin + "\n" + key, 0o444, "private key"},
		"an AWS access key":    {"a", "id = " + access + "\n", 0o444, "AWS access key"},
		"an AWS secret":        {"a", "AWS_SECRET" + "_ACCESS_KEY=" + key[:40], 0o444, "AWS secret key"},
		"an AWS profile":       {"a", "aws_secret" + "_access_key = " + key[:40], 0o444, "AWS secret key"},
		"a kubeconfig's key":   {"a.yaml", "    client-key-data: " + key, 0o444, "key of a kubeconfig"},
		"a kubeconfig's token": {"a.yaml", "    token: sha256~" + key, 0o444, "a token"},
		"a service account":    {"a", "x" + jwt + "\n", 0o444, "a token"},
		"a registry's":         {"a.json", `{"auths":{"example.com":{"auth":"` + key + `"}}}`, 0o444, "password of a registry"},
		"a kubeconfig by name": {"etc/kubeconfig", "", 0o444, "/etc/kubeconfig: the file holds credentials"},
		"a key by name":        {"etc/tls.key", "", 0o444, "/etc/tls.key"},
		"above the root":       {"../a", "", 0o444, `"../a"`},
		"from the root":        {"/a", "", 0o444, `"/a"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := image.Build(image.Image{Files: []image.File{{Path: example.path, Content: []byte(example.content), Mode: example.mode}}})
			if err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error is %v, want %q", err, example.want)
			}
		})
	}
	if _, err := image.Build(image.Image{Files: []image.File{{Path: "a"}, {Path: "a"}}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a file that appears twice: %v", err)
	}
}

func TestWhatOnlyLooksLikeASecretIsNot(t *testing.T) {
	for _, content := range []string{
		"-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
		"secretKeyRef:\n  name: AWS_SECRET_ACCESS_KEY\n  key: aws_secret_access_key\n",
		"serviceAccountToken:\n  path: token\ntoken:\n  description: The token of whoever asks, in words that go on and on\n",
		"parse PEM: no -----BEGIN RSA PRIVATE KEY----- found",
		"\x00token: averylongmessageofaprogram",
	} {
		if err := image.CheckFile(image.File{Path: "a", Mode: image.ModeFile, Content: []byte(content)}); err != nil {
			t.Errorf("%v in %q", err, content)
		}
	}
}

// A test is a Go program, too.
func TestTheSBOMIsWhatTheProgramSaysOfItself(t *testing.T) {
	name := must[string](t)(os.Executable())
	binary := must[[]byte](t)(os.ReadFile(name))
	text := must[[]byte](t)(image.SBOM(binary, "thing", "1.2.3"))
	if again := must[[]byte](t)(image.SBOM(binary, "thing", "1.2.3")); string(again) != string(text) {
		t.Error("two SBOMs of a program differ")
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(string(text)), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("serial number %q, time %q: want none", bom.SerialNumber, bom.Metadata.Timestamp)
	}
	info, _ := debug.ReadBuildInfo()
	if got := len(*bom.Components); got != len(info.Deps)+1 {
		t.Errorf("%d components, want %d modules and the standard library", got, len(info.Deps))
	}
	if _, err := image.SBOM([]byte("#!/bin/sh"), "script", "1"); err == nil || !strings.Contains(err.Error(), "SBOM of script") {
		t.Errorf("SBOM of a script: %v", err)
	}
}
