package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// login is the keychain of a user of the registry.
type login struct{ password string }

func (l login) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "me", Password: l.password}, nil
}

// scene is a registry on loopback that asks for a login and has a certificate of its own CA, and a repository whose images are in it.
type scene struct {
	host, authorities, repository, output string
	writes, uploads                       atomic.Int64
	// full is the number of uploads after which the registry has no room; none if it is 0.
	full atomic.Int64
	// cut is the number of requests that write after which the registry cuts each connection without an answer; none if it is 0.
	cut atomic.Int64
	// With hidden, the registry refuses to say whether a tag exists in a repository without images. With secret, it always refuses.
	hidden, secret atomic.Bool
	// pushed has the repositories with an image.
	pushed sync.Map
	out    bytes.Buffer
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{repository: t.TempDir(), output: t.TempDir()}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.writes.Add(1)
		}
		if limit := s.cut.Load(); limit > 0 && s.writes.Load() > limit {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = connection.Close()
			}
			return
		}
		if _, password, _ := r.BasicAuth(); password != "right" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if limit := s.full.Load(); r.Method == http.MethodPut && limit > 0 && s.uploads.Add(1) > limit {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		if tag := regexp.MustCompile(`^/v2/me/(\S+)/manifests/v`).FindStringSubmatch(r.URL.Path); tag != nil && r.Method == http.MethodHead {
			_, exists := s.pushed.Load(tag[1])
			if s.secret.Load() || s.hidden.Load() && !exists {
				w.WriteHeader(http.StatusForbidden)
				return
			}
		}
		if pushed := regexp.MustCompile(`^/v2/me/(\S+)/manifests/sha256:`).FindStringSubmatch(r.URL.Path); pushed != nil && r.Method == http.MethodPut {
			s.pushed.Store(pushed[1], true)
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	s.host = strings.TrimPrefix(server.URL, "https://")
	s.authorities = filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(s.authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for _, folder := range []string{"bundle", "config", "images", "manifests"} {
		must(t, os.CopyFS(filepath.Join(s.repository, folder), os.DirFS(filepath.Join("../..", folder))))
	}
	text, err := os.ReadFile("../../VERSION")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.repository, "VERSION"), text, 0o600))
	s.edit(t, `(?m)image: (registry\.k8s\.io|quay\.io|public\.ecr\.aws)/(sig-storage|brancz|operator-framework|openshift|efs-csi-driver/amazon)/`,
		"image: "+s.host+"/upstream/")
	for _, tag := range []string{
		"csi-provisioner:v6.4.0", "csi-node-driver-registrar:v2.15.0", "livenessprobe:v2.17.0", "kube-rbac-proxy:v0.20.0", "opm:v1.55.0",
		"origin-must-gather:4.21", "aws-efs-csi-driver:v3.4.1",
	} {
		s.put(t, s.host+"/upstream/"+tag)
	}
	s.put(t, s.driver())
	return s
}

func (s *scene) driver() string { return s.host + "/me/aws-efs-csi-driver:v" + s.version() }

func (s *scene) version() string {
	text, _ := os.ReadFile(filepath.Join(s.repository, "VERSION"))
	return strings.TrimSpace(string(text))
}

func (s *scene) edit(t *testing.T, pattern, replacement string) {
	t.Helper()
	file := filepath.Join(s.repository, "images/images.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, regexp.MustCompile(pattern).ReplaceAll(text, []byte(replacement)), 0o600))
}

func (s *scene) client(t *testing.T) registryClient {
	t.Helper()
	client, err := newRegistryClient(s.authorities)
	must(t, err)
	client.keychain = login{"right"}
	return client
}

// put pushes an image of nothing but its name.
func (s *scene) put(t *testing.T, pullSpec string) {
	t.Helper()
	built, err := image.Build(image.Image{Files: []image.File{{Path: "name", Mode: image.ModeFile, Content: []byte(pullSpec)}}, Architecture: "amd64"})
	must(t, err)
	tag, err := name.NewTag(pullSpec)
	must(t, err)
	must(t, remote.Write(tag, built, s.client(t).options(t.Context())...))
}

// publisher builds programs that are only names, since compiling them takes minutes. Bundles and catalogs are the real ones.
func (s *scene) publisher(t *testing.T) *publisher {
	t.Helper()
	return &publisher{
		repository: s.repository, registry: s.host + "/me", output: s.output, remote: s.client(t), out: &s.out,
		build: func(_ context.Context, bundles, images string, names []string) error {
			for _, name := range names {
				about := image.About{Title: name, Version: s.version(), License: []byte("license"), Architecture: "amd64"}
				built, err := build(about, bundles, name)
				if err == nil {
					_, err = image.WriteLayout(filepath.Join(images, name), name, []v1.Image{built})
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func build(about image.About, bundles, name string) (v1.Image, error) {
	if folder, is := strings.CutSuffix(name, "-bundle"); is {
		return image.Bundle(about, os.DirFS(filepath.Join(bundles, folder)))
	}
	if strings.HasPrefix(name, catalog) {
		return image.Catalog(about, os.DirFS(filepath.Join(bundles, "catalog")))
	}
	sbom, err := image.SBOMWithoutProgram(name, about.Version)
	if err != nil {
		return nil, err
	}
	return image.Program(about, name, []byte("program "+name), sbom)
}

// tags are those of our images in the registry, but for the driver's.
func (s *scene) tags(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, one := range append(append(programs(), bundles()...), "must-gather", "catalog", "catalog-opm") {
		repository, err := name.NewRepository(s.host + "/me/" + one)
		must(t, err)
		list, err := remote.List(repository, s.client(t).options(t.Context())...)
		if err == nil {
			for _, tag := range list {
				if !strings.HasPrefix(tag, "sha256-") {
					found = append(found, one+":"+tag)
				}
			}
		}
	}
	return found
}

func (s *scene) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.output, "tree", filepath.FromSlash(name)))
	must(t, err)
	return string(text)
}

func TestWhatIsPublishedNamesImagesThatAreThere(t *testing.T) {
	s := newScene(t)
	must(t, s.publisher(t).publish(t.Context(), s.version()))
	for file, count := range map[string]int{
		"bundle/aws-efs-csi-driver-operator/manifests/aws-efs-csi-driver-operator.clusterserviceversion.yaml": 8,
		"bundle/catalog/aws-efs-csi-driver-operator/bundles/v" + s.version() + ".yaml":                        9,
		"bundle/install/1-catalogsource.yaml":                                                                 1,
		"bundle/install/before-4.21/1-catalogsource.yaml":                                                     1,
		"bundle/disconnected/mirror.txt":                                                                      13,
		"manifests/image-references":                                                                          2,
	} {
		text := s.file(t, file)
		seen := map[string]bool{}
		for _, spec := range regexp.MustCompile(regexp.QuoteMeta(s.host)+`/[a-z0-9./-]+@sha256:[0-9a-f]{64}`).FindAllString(text, -1) {
			seen[spec] = true
			if _, err := s.client(t).digestOf(t.Context(), spec); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if len(seen) != count {
			t.Errorf("%s names %d images by digest, want %d:\n%s", file, len(seen), count, text)
		}
	}
	if got := s.tags(t); len(got) != 10 {
		t.Errorf("tags %v", got)
	}
	for _, want := range []string{
		"oc apply -f " + s.output + "/tree/bundle/install/", "=aws-efs-csi-driver-operator.v" + s.version(), "/config/samples/clustercsidriver.yaml",
	} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("no %q in\n%s", want, &s.out)
		}
	}
	// Once more: everything is there.
	s.out.Reset()
	must(t, s.publisher(t).publish(t.Context(), ""))
	if got := strings.Count(s.out.String(), "is already in the registry"); got != 10 {
		t.Errorf("%d images were there already:\n%s", got, &s.out)
	}
}

// The driver is upstream's, unless the release wants ours, which is in the registry already.
func TestAReleaseNamesTheDriverThatItIsTold(t *testing.T) {
	for choice, want := range map[string]string{"": "/upstream/aws-efs-csi-driver@", "built": "/me/aws-efs-csi-driver@"} {
		s := newScene(t)
		p := s.publisher(t)
		p.driverImage = choice
		must(t, p.publish(t.Context(), ""))
		const csv = "bundle/aws-efs-csi-driver-operator/manifests/aws-efs-csi-driver-operator.clusterserviceversion.yaml"
		if got := strings.Count(s.file(t, csv), s.host+want+"sha256:"); got != 2 {
			t.Errorf("%q: the driver is named %d times as %s", choice, got, want)
		}
		if !regexp.MustCompile(`opm:v1\.55\.0\n    digest: v1\.55\.0@sha256:`).MatchString(s.file(t, "images/images.yaml")) {
			t.Errorf("%q: the base of the catalog has no digest", choice)
		}
	}
}

// Some registries answer "denied" for a repository that the first push will create.
func TestARepositoryThatIsHiddenUntilItExistsIsPublishedTo(t *testing.T) {
	s := newScene(t)
	s.hidden.Store(true)
	must(t, s.publisher(t).publish(t.Context(), ""))
	if got := s.tags(t); len(got) != 10 {
		t.Errorf("tags %v", got)
	}
}

// If the registry still hides the tag when the image is there, nothing says that the tag is free.
func TestATagThatCanNotBeReadIsNotSet(t *testing.T) {
	s := newScene(t)
	s.secret.Store(true)
	err := s.publisher(t).publish(t.Context(), "")
	if want := "no tag was set: read tag "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error: %v\nwant %q", err, want)
	}
	s.secret.Store(false)
	if got := s.tags(t); len(got) > 0 {
		t.Errorf("published: %v", got)
	}
}

func TestADryRunSendsNothing(t *testing.T) {
	s := newScene(t)
	before := s.writes.Load()
	p := s.publisher(t)
	p.dryRun = true
	must(t, p.publish(t.Context(), ""))
	if got := s.writes.Load(); got != before {
		t.Errorf("%d requests that write", got-before)
	}
	for _, want := range []string{
		s.host + "/me/catalog@sha256:", s.host + "/me/catalog-opm@sha256:", s.host + "/me/must-gather@sha256:", "Nothing was sent",
		"/bundle/install/ && \\\n", " --timeout=10m && \\\n",
	} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("no %q in\n%s", want, &s.out)
		}
	}
	// What it shows is what is published.
	dry := digests(s.out.String())
	s.out.Reset()
	must(t, s.publisher(t).publish(t.Context(), ""))
	if got := digests(s.out.String()); len(got) != 10 || !slices.Equal(got, dry) {
		t.Errorf("the dry run shows %v, and %v is published", dry, got)
	}
}

// digests are the lines with images by digest.
func digests(text string) []string {
	return regexp.MustCompile(`(?m)^\S+@sha256:[0-9a-f]{64}$`).FindAllString(text, -1)
}

// Where no public registry can be reached, all images of others come from copies.
func TestImagesOfOthersComeFromCopies(t *testing.T) {
	s := newScene(t)
	text, err := os.ReadFile("../../images/images.yaml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.repository, "images/images.yaml"), text, 0o600))
	for _, tag := range regexp.MustCompile(`image: [^/\s]+/(\S+:[^\s$]+)`).FindAllStringSubmatch(string(text), -1) {
		s.put(t, s.host+"/copies/"+tag[1])
	}
	p := s.publisher(t)
	p.upstream = s.host + "/copies"
	must(t, p.publish(t.Context(), ""))
	list := s.file(t, "bundle/disconnected/mirror.txt")
	if got := strings.Count(list, s.host+"/copies/"); got != 5 || strings.Contains(list, "registry.k8s.io") {
		t.Errorf("%d images come from copies, want 5:\n%s", got, list)
	}
}
