package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestAWrongInputPublishesNothing(t *testing.T) {
	for what, example := range map[string]struct {
		spoil   func(*testing.T, *scene, *publisher)
		version string
		want    string
	}{
		"no registry":       {func(_ *testing.T, _ *scene, p *publisher) { p.registry = "" }, "", "is not a registry with a path"},
		"a scheme":          {func(_ *testing.T, _ *scene, p *publisher) { p.registry = "https://quay.io/me" }, "", "write it without a scheme"},
		"another version":   {func(*testing.T, *scene, *publisher) {}, "9.9.9", "run make release VERSION=9.9.9 first"},
		"no login":          {func(_ *testing.T, _ *scene, p *publisher) { p.remote.keychain = login{"wrong"} }, "", "log in with podman login "},
		"a CA of strangers": {func(_ *testing.T, _ *scene, p *publisher) { p.remote.transport = remote.DefaultTransport }, "", "name its CA with CA=file"},
		"a digest that does not exist": {func(t *testing.T, s *scene, _ *publisher) {
			s.edit(t, `(?m)^(    image: \S+/livenessprobe:(\S+))$`, "$1\n    digest: $2@sha256:"+strings.Repeat("0", 64))
		}, "", "/upstream/livenessprobe@sha256:" + strings.Repeat("0", 64) + " is not in its registry"},
		"no driver": {
			func(_ *testing.T, _ *scene, p *publisher) { p.registry, p.driverImage = p.registry+"/other", "built" }, "",
			"build it with the commands that make images prints, and push it first, or choose the image of upstream with DRIVER=upstream",
		},
		"no base of the catalog": {
			func(t *testing.T, s *scene, _ *publisher) { s.edit(t, `opm:v1.55.0`, "opm:v0.0.0") }, "", "/upstream/opm:v0.0.0 is not in its registry",
		},
		"a driver of neither": {func(_ *testing.T, _ *scene, p *publisher) { p.driverImage = "mine" }, "", "DRIVER=mine: set DRIVER to upstream or built"},
		"a full disk": {func(_ *testing.T, _ *scene, p *publisher) {
			p.build = func(context.Context, string, string, []string) error {
				return fmt.Errorf("write: no space left on device")
			}
		}, "", "no space left on device"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t)
			p := s.publisher(t)
			example.spoil(t, s, p)
			err := p.publish(t.Context(), example.version)
			if err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error: %v\nwant %q", err, example.want)
			}
			if err != nil && strings.Contains(err.Error(), "podman login") && strings.Contains(err.Error(), "CA=file") {
				t.Errorf("the error names two causes: %v", err)
			}
			if got := s.tags(t); len(got) > 0 {
				t.Errorf("published: %v", got)
			}
		})
	}
}

func TestATagOfAnotherBuildStays(t *testing.T) {
	s := newScene(t)
	taken := "oc-storage:v" + s.version()
	s.put(t, s.host+"/me/"+taken)
	err := s.publisher(t).publish(t.Context(), "")
	if want := "/me/" + taken + " already exists with sha256:"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error: %v\nwant %q", err, want)
	}
	if got := s.tags(t); len(got) != 1 || got[0] != taken {
		t.Errorf("tags %v", got)
	}
}

// The registry has no room after some uploads, or the connection is cut. Images without a tag stay, and the same command ends what it began.
func TestAPushThatWasCutIsRepeated(t *testing.T) {
	for what, spoil := range map[string]func(*scene){
		"the registry is full": func(s *scene) { s.full.Store(5) },
		// Each of the nine images is first asked for the right to push, by two requests.
		"the connection is cut": func(s *scene) { s.cut.Store(s.writes.Load() + 2*9 + 7) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t)
			spoil(s)
			err := s.publisher(t).publish(t.Context(), "")
			if want := "repeat the same command"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error: %v\nwant %q", err, want)
			}
			s.full.Store(0)
			s.cut.Store(0)
			if got := s.tags(t); len(got) > 0 {
				t.Errorf("tags of half a release: %v", got)
			}
			must(t, s.publisher(t).publish(t.Context(), ""))
			if got := s.tags(t); len(got) != 10 {
				t.Errorf("tags %v", got)
			}
		})
	}
}
