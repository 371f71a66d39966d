package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// zone is where the node is, and what the stand-in for the driver of EBS says about its volumes.
const zone = "us-east-1a"

// manifestsFolder is where the image of a release has its manifests (openshift/oc, pkg/cli/admin/release/new.go).
const manifestsFolder = "release-manifests"

// payload is the image of a release of OpenShift, as far as this repository makes it.
func (r *rehearsal) payload() string {
	return r.first.host + "/release/ocp-release:" + env.ClusterRelease
}

// stream is image-references: which image each name of a release has.
type stream struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Spec       struct {
		Tags []struct {
			Name string `json:"name"`
			From struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"from"`
		} `json:"tags"`
	} `json:"spec"`
}

// makePayload puts the image of a release together, as "oc adm release new" does: our manifests, in which each image of the release is named by
// digest. Our two images are the published ones.
func (r *rehearsal) makePayload(ctx context.Context) error {
	text, err := os.ReadFile(r.published("manifests/image-references"))
	if err != nil {
		return err
	}
	var references stream
	if err := yaml.Unmarshal(text, &references); err != nil {
		return err
	}
	others, err := nodeimages.PayloadOfOthers(zone, "AWS")
	if err != nil {
		return err
	}
	images, ours := map[string]string{}, 0
	for i, tag := range references.Spec.Tags {
		pullSpec := tag.From.Name
		if strings.HasPrefix(pullSpec, r.first.host+"/me/") {
			ours++
		} else if others[tag.Name] != nil {
			if pullSpec, err = r.push(ctx, r.first.host+"/release/"+tag.Name+":v"+env.ClusterRelease, others[tag.Name]); err != nil {
				return err
			}
		} else {
			// Operators of clouds that this cluster is not on.
			pullSpec = r.first.host + "/release/" + tag.Name + "@sha256:" + strings.Repeat("0", 64)
		}
		images[tag.Name], references.Spec.Tags[i].From.Name = pullSpec, pullSpec
	}
	if ours != 2 {
		return fmt.Errorf("image-references names %d images of ours, want 2:\n%s", ours, text)
	}
	files, err := r.payloadFiles(references, images)
	if err != nil {
		return err
	}
	built, err := image.Build(image.Image{Files: files, Architecture: runtime.GOARCH})
	if err != nil {
		return err
	}
	pushed, err := r.push(ctx, r.payload(), built)
	r.say("A payload of OpenShift %s has our two operators in it: %s", env.ClusterRelease, pushed)
	return err
}

// payloadFiles are the manifests of the release with their images, and what describes it.
func (r *rehearsal) payloadFiles(references stream, images map[string]string) ([]image.File, error) {
	rendered, err := env.Release{Version: env.ClusterRelease, Images: images}.Texts()
	if err != nil {
		return nil, err
	}
	described, err := json.Marshal(references)
	if err != nil {
		return nil, err
	}
	rendered["image-references"] = described
	rendered["release-metadata"] = fmt.Appendf(nil, `{"kind":"cincinnati-metadata-v0","version":%q}`, env.ClusterRelease)
	var files []image.File
	for name, text := range rendered {
		files = append(files, image.File{Path: filepath.Join(manifestsFolder, name), Mode: image.ModeFile, Content: text})
	}
	return files, nil
}

// startPayload applies the manifests of the payload, as the cluster-version operator does that runs from it, and waits for storage.
func (r *rehearsal) startPayload(ctx context.Context) error {
	files, err := r.files(ctx, r.payload())
	if err != nil {
		return err
	}
	folder := r.file("payload")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	images := map[string]string{}
	for name, text := range files {
		if filepath.Dir(name) != manifestsFolder {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), text, 0o600); err != nil {
			return err
		}
	}
	var references stream
	if err := yaml.Unmarshal(files[manifestsFolder+"/image-references"], &references); err != nil {
		return err
	}
	for _, tag := range references.Spec.Tags {
		images[tag.Name] = tag.From.Name
	}
	r.say("Starting storage from the payload.")
	r.newPayload = env.Release{Version: env.ClusterRelease, Folder: folder, Images: images}
	if err := r.applyPayload(ctx, r.newPayload); err != nil {
		return err
	}
	return r.report(r.first)
}

// applyPayload applies a release, and waits until storage is at it.
func (r *rehearsal) applyPayload(ctx context.Context, to env.Release) error {
	if err := r.cluster.ApplyRelease(ctx, to); err != nil {
		return err
	}
	err := env.AwaitFor(ctx, patience, "ClusterOperator storage at the release, and EBS registered", func() error {
		return errors.Join(r.cluster.Reached(ctx, to.Version), r.registered(ctx, "ebs.csi.aws.com"))
	})
	if err == nil {
		r.say("ClusterOperator storage is at %s, and the kubelet has registered EBS.", to.Version)
	}
	return err
}

// registered returns an error unless the kubelet has registered a driver.
func (r *rehearsal) registered(ctx context.Context, driver string) error {
	nodes := &storagev1.CSINodeList{}
	if err := r.cluster.Client.List(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		for _, one := range node.Spec.Drivers {
			if one.Name == driver {
				return nil
			}
		}
	}
	return fmt.Errorf("no CSINode has driver %s", driver)
}
