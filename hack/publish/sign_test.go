package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// signed is the signature of an image, from the registry.
func (s *scene) signed(t *testing.T, repository, digest string) v1.Image {
	t.Helper()
	tag, err := name.NewTag(repository + ":" + strings.Replace(digest, ":", "-", 1) + ".sig")
	must(t, err)
	found, err := remote.Image(tag, s.client(t).options(t.Context())...)
	must(t, err)
	return found
}

func TestEverythingThatIsPublishedIsSigned(t *testing.T) {
	s := newScene(t)
	p := s.publisher(t)
	p.key = newKey(t)
	must(t, p.publish(t.Context(), ""))
	count := 0
	for _, image := range p.release.All() {
		if !image.Own {
			continue
		}
		reference, err := name.ParseReference(image.Image)
		must(t, err)
		index, err := remote.Index(reference, s.client(t).options(t.Context())...)
		must(t, err)
		list, err := index.IndexManifest()
		must(t, err)
		digest, err := index.Digest()
		must(t, err)
		attached := s.sbom(t, p, image.Name, list.Manifests[0].Digest.String())
		for _, one := range []string{digest.String(), list.Manifests[0].Digest.String(), attached} {
			count++
			signature := s.signed(t, image.Repository(), one)
			must(t, verify(&p.key.PublicKey, signature, image.Repository(), one))
			if err := verify(&newKey(t).PublicKey, signature, image.Repository(), one); err == nil {
				t.Error("another key verifies the signature")
			}
			if err := verify(&p.key.PublicKey, signature, image.Repository(), "sha256:"+strings.Repeat("0", 64)); err == nil {
				t.Error("the signature is of any image")
			}
			// The same key makes the same signature, so a repeated command changes nothing.
			again, err := sign(p.key, image.Repository(), one)
			must(t, err)
			first, err := signature.Digest()
			must(t, err)
			if second, err := again.Digest(); err != nil || first != second {
				t.Errorf("signature %s, and again %s: %v", first, second, err)
			}
		}
	}
	if count != 30 {
		t.Errorf("%d signatures, want those of 10 indexes, of 10 images and of 10 SBOMs", count)
	}
	s.verifyWithCosign(t, p)
}

// sbom checks the SBOM of an image in the registry, and returns its digest.
func (s *scene) sbom(t *testing.T, p *publisher, of, digest string) string {
	t.Helper()
	image, err := p.release.Find(of)
	must(t, err)
	tag, err := name.NewTag(image.Repository() + ":" + strings.Replace(digest, ":", "-", 1) + ".sbom")
	must(t, err)
	found, err := remote.Image(tag, s.client(t).options(t.Context())...)
	must(t, err)
	layers, err := found.Layers()
	must(t, err)
	content, err := layers[0].Uncompressed()
	must(t, err)
	defer content.Close()
	var document struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Name string }
		}
	}
	must(t, json.NewDecoder(content).Decode(&document))
	if document.Format != "CycloneDX" || document.Metadata.Component.Name != of {
		t.Errorf("the SBOM of %s is %+v", of, document)
	}
	own, err := found.Digest()
	must(t, err)
	return own.String()
}

// verifyWithCosign runs the real program where it is installed.
func (s *scene) verifyWithCosign(t *testing.T, p *publisher) {
	t.Helper()
	cosign, err := exec.LookPath("cosign")
	if err != nil {
		t.Log("cosign is not installed, so only this package's own verification ran")
		return
	}
	folder := t.TempDir()
	write := func(name string, key *ecdsa.PrivateKey) string {
		public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		must(t, err)
		file := filepath.Join(folder, name)
		must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
		return file
	}
	auth := base64.StdEncoding.EncodeToString([]byte("me:right"))
	must(t, os.WriteFile(filepath.Join(folder, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, s.host, auth), 0o600))
	operator, err := p.release.Find("aws-efs-csi-driver-operator")
	must(t, err)
	for key, works := range map[string]bool{write("cosign.pub", p.key): true, write("other.pub", newKey(t)): false} {
		command := exec.CommandContext(t.Context(), cosign, "verify", "--key", key, "--insecure-ignore-tlog=true", operator.Image)
		command.Env = append(os.Environ(), "DOCKER_CONFIG="+folder, "SSL_CERT_FILE="+s.authorities)
		output, err := command.CombinedOutput()
		if (err == nil) != works {
			t.Errorf("cosign with key %s: %v\n%s", key, err, output)
		}
		t.Logf("%s", output)
	}
	command := exec.CommandContext(t.Context(), cosign, "download", "sbom", "--platform=linux/amd64", operator.Image)
	command.Env = append(os.Environ(), "DOCKER_CONFIG="+folder, "SSL_CERT_FILE="+s.authorities)
	if output, err := command.Output(); err != nil || !bytes.Contains(output, []byte(`"CycloneDX"`)) {
		t.Errorf("cosign download sbom: %v\n%s", err, output)
	}
}

func TestAKeyThatCanNotSignIsNamed(t *testing.T) {
	der, err := x509.MarshalPKCS8PrivateKey(newKey(t))
	must(t, err)
	for what, example := range map[string]struct{ text, want string }{
		"a key":              {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), ""},
		"a key of cosign":    {string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: der})), "the key has a password"},
		"something else":     {"key", "the file has no key in PEM format"},
		"half a private key": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]})), "it is not a private key in PKCS #8"},
	} {
		file := filepath.Join(t.TempDir(), "key.pem")
		must(t, os.WriteFile(file, []byte(example.text), 0o600))
		_, err := readKey(file)
		if example.want == "" && err != nil || example.want != "" && (err == nil || !strings.Contains(err.Error(), example.want)) {
			t.Errorf("%s: error %v, want %q", what, err, example.want)
		}
	}
	if _, err := readKey("missing.pem"); err == nil || !strings.Contains(err.Error(), "KEY=missing.pem: ") {
		t.Errorf("error %v", err)
	}
}

// verify checks that an image which holds a signature is about this digest, and that the key belongs to the signature.
func verify(key *ecdsa.PublicKey, signed v1.Image, repository, digest string) error {
	manifest, err := signed.Manifest()
	if err != nil || len(manifest.Layers) != 1 {
		return fmt.Errorf("signature of %s: it has not one layer (%w)", repository, err)
	}
	layers, err := signed.Layers()
	if err != nil {
		return fmt.Errorf("signature of %s: %w", repository, err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		return fmt.Errorf("signature of %s: %w", repository, err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("signature of %s: %w", repository, err)
	}
	var about signedText
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&about); err != nil {
		return fmt.Errorf("signature of %s: %w", repository, err)
	}
	if about.Critical.Identity.Reference != repository || about.Critical.Image.Digest != digest {
		return fmt.Errorf("signature of %s: it is of %s@%s", repository, about.Critical.Identity.Reference, about.Critical.Image.Digest)
	}
	signature, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations[signatureAnnotation])
	sum := sha256.Sum256(text)
	if err != nil || !ecdsa.VerifyASN1(key, sum[:], signature) {
		return errors.Join(fmt.Errorf("signature of %s: the key did not make it", repository), err)
	}
	return nil
}
