package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

// patience is how long a step may take on few processors. An operator waits for the Lease of a killed one: on a single node up to 270 s and a retry
// period of 60 s (internal/operator/manager/lease.go). Of a payload, two operators do so, one after the other.
const patience = 12 * time.Minute

// startCluster starts a cluster whose one node is real and knows the registries that are on.
func (r *rehearsal) startCluster(ctx context.Context, from *registry) (err error) {
	if r.cluster, err = env.Start(ctx, "--topology", "SingleReplica", "--real-nodes", "1"); err != nil {
		return err
	}
	address, err := r.cluster.Host()
	if err != nil {
		return err
	}
	place, err := from.listen(address, from.port)
	if err != nil {
		return err
	}
	mirrors := map[string]string{r.first.host: place}
	if from == r.mirror {
		if mirrors, err = r.mirrorsOfTheSet(place); err != nil {
			return err
		}
	}
	r.olm = fakeolm.OnNodes(r.cluster)
	return errors.Join(
		r.cluster.UseRegistries(env.Registries{Mirrors: mirrors, CA: r.authority.text, Login: user + ":" + password}),
		r.cluster.Namespace(ctx, env.OperatorNamespace),
	)
}

func (r *rehearsal) startFirst(ctx context.Context) error {
	r.say("Starting a cluster with one real node, which pulls from the registry.")
	return r.startCluster(ctx, r.first)
}

// version is a version of the operator that a catalog has.
type version struct {
	csv     fakeolm.CSV
	channel olm.CatalogChannel
}

// newest reads the catalog that a CatalogSource names, and the bundle that its channel names first, both from the registry.
func (r *rehearsal) newest(ctx context.Context, catalogSource string) (version, error) {
	var found version
	text, err := os.ReadFile(catalogSource)
	if err != nil {
		return found, err
	}
	var source struct {
		Spec struct{ Image string }
	}
	if err := yaml.Unmarshal(text, &source); err != nil {
		return found, err
	}
	if !strings.Contains(source.Spec.Image, "@sha256:") {
		return found, fmt.Errorf("%s names the catalog by its tag: %s", catalogSource, source.Spec.Image)
	}
	files, err := r.files(ctx, source.Spec.Image)
	if err != nil {
		return found, err
	}
	folder := "configs/" + env.OperatorName + "/"
	// Version 5.1.0 has only one channel, in another file.
	channel := files[folder+olm.ChannelFile(olm.Stable)]
	if channel == nil {
		channel = files[folder+"channel.yaml"]
	}
	if err := yaml.Unmarshal(channel, &found.channel); err != nil || len(found.channel.Entries) == 0 {
		return found, fmt.Errorf("the catalog has no channel of %s (%w)", env.OperatorName, err)
	}
	_, number, _ := strings.Cut(found.channel.Entries[0].Name, ".")
	var bundle olm.CatalogBundle
	if err := yaml.Unmarshal(files[folder+"bundles/"+number+".yaml"], &bundle); err != nil || !strings.Contains(bundle.Image, "@sha256:") {
		return found, fmt.Errorf("the catalog names the bundle of %s as %q, want a digest (%w)", number, bundle.Image, err)
	}
	if files, err = r.files(ctx, bundle.Image); err != nil {
		return found, err
	}
	found.csv, err = fakeolm.ReadBundle(files)
	return found, err
}

// files are those of an image.
func (r *rehearsal) files(ctx context.Context, pullSpec string) (olm.Files, error) {
	image, err := r.pull(ctx, pullSpec)
	if err != nil {
		return nil, err
	}
	content := mutate.Extract(image)
	defer content.Close()
	files := olm.Files{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, reader); err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(header.Name, "./")] = text.Bytes()
	}
}

// installOlder installs the older version and its driver, and runs a pod with a volume.
func (r *rehearsal) installOlder(ctx context.Context) error {
	older, err := r.newest(ctx, filepath.Join(r.file("older"), "bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	r.say("Installing %s from its catalog.", older.csv.Name)
	if err := r.install(ctx, older); err != nil {
		return err
	}
	return r.write(ctx)
}

// install installs a version and its driver.
func (r *rehearsal) install(ctx context.Context, wanted version) error {
	if err := r.olm.Install(ctx, wanted.csv, env.OperatorNamespace); err != nil {
		return err
	}
	if err := env.AwaitFor(ctx, patience, "the operator's pod ready", func() error { return r.operatorRuns(ctx, wanted) }); err != nil {
		return err
	}
	if err := r.cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
		return err
	}
	return r.settled(ctx, wanted)
}

// operatorRuns returns an error unless the Deployment of a version has its pod.
func (r *rehearsal) operatorRuns(ctx context.Context, wanted version) error {
	deployment := &appsv1.Deployment{}
	if err := r.cluster.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: env.OperatorName}, deployment); err != nil {
		return err
	}
	status := deployment.Status
	if status.ObservedGeneration != deployment.Generation || status.UpdatedReplicas != 1 || status.ReadyReplicas != 1 || status.Replicas != 1 {
		return fmt.Errorf("the Deployment of %s has no ready pod: %+v", wanted.csv.Name, status)
	}
	return nil
}

// settled waits until the driver is complete at a version.
func (r *rehearsal) settled(ctx context.Context, wanted version) error {
	err := env.AwaitFor(ctx, patience, "the driver settles", func() error {
		cr := env.EFS("")
		if err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		if cr.Status.Version != wanted.csv.Version.String() {
			return fmt.Errorf("the ClusterCSIDriver is at version %q", cr.Status.Version)
		}
		return r.cluster.Settled(ctx)
	})
	if err == nil {
		r.say("The driver of %s is available.", wanted.csv.Name)
	}
	return err
}

// upgrade upgrades the operator by the channel of the newer catalog. The pod with a volume goes on writing.
func (r *rehearsal) upgrade(ctx context.Context) error {
	newer, err := r.newest(ctx, r.published("bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	older, err := r.newest(ctx, filepath.Join(r.file("older"), "bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	entry := newer.channel.Entries[0]
	in, err := semver.ParseRange(entry.SkipRange)
	if err != nil || !in(older.csv.Version) {
		return fmt.Errorf("OLM would not upgrade %s: entry %s skips %q (%w)", older.csv.Name, entry.Name, entry.SkipRange, err)
	}
	r.say("Upgrading to %s, as its channel says: it skips %s.", entry.Name, entry.SkipRange)
	err = r.whileWriting(ctx, func(ctx context.Context) error {
		if err := r.olm.Upgrade(ctx, older.csv.Name, newer.csv); err != nil {
			return err
		}
		if err := env.AwaitFor(ctx, patience, "the operator's new pod ready", func() error { return r.operatorRuns(ctx, newer) }); err != nil {
			return err
		}
		return r.settled(ctx, newer)
	})
	if err != nil {
		return err
	}
	return r.report(r.first)
}

// report says what nodes have pulled from a registry.
func (r *rehearsal) report(from *registry) error {
	count, err := from.images()
	if err == nil && count == 0 {
		err = errors.New("no node has pulled an image by digest")
	}
	if refused := from.refused.Load(); err == nil && refused == 0 {
		err = errors.New("the registry has refused no request without the login")
	}
	if err = errors.Join(err, r.byDigest()); err != nil {
		return err
	}
	r.say("Nodes have pulled %d images by digest from %s, and none by tag.", count, from.host)
	return nil
}

// byDigest returns an error unless all images of the operators' pods are named by digest.
func (r *rehearsal) byDigest() error {
	var problems []error
	for _, namespace := range []string{env.OperatorNamespace, env.CSONamespace} {
		pods := &unstructured.UnstructuredList{}
		pods.SetAPIVersion("v1")
		pods.SetKind("PodList")
		if err := r.cluster.Client.List(context.Background(), pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			containers, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
			problems = append(problems, err)
			for _, each := range containers {
				image, _, _ := unstructured.NestedString(each.(map[string]any), "image")
				if !strings.Contains(image, "@sha256:") {
					problems = append(problems, fmt.Errorf("pod %s has image %s", pod.GetName(), image))
				}
			}
		}
	}
	return errors.Join(problems...)
}
