package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

// Each variant of each driver starts: every sidecar takes its arguments, becomes leader, and serves its metrics to who may see them.
// Variants that look the same to sidecars share one start. The base is started by TestVolumesLiveUnderTheRenderedRoles. Of the others, make test
// starts those that change something for a program, or for an account, that no variant has changed before; make soak starts all.
func TestEveryVariantStarts(t *testing.T) {
	started := map[string]bool{}
	for _, folder := range slices.Sorted(maps.Keys(suite.variants)) {
		profile := suite.profiles[folder]
		different, err := groups(suite.variants[folder])
		env.Must(t, err)
		for i, group := range different {
			lives := living(folder).name
			isNew := i == 0 && group.name != lives && !slices.Contains(group.others, lives)
			for _, change := range group.changes(suite.variants[folder][0]) {
				isNew = isNew || !started[change]
				started[change] = true
			}
			if !isNew && !env.IsSoak(t) {
				continue
			}
			t.Run(group.String(), func(t *testing.T) {
				if len(group.others) > 0 {
					t.Logf("the sidecars of these variants are the same: %s", strings.Join(group.others, ", "))
				}
				mark := now(t)
				controller, node := deploy(t, group.variant, profile.at("node-of-nobody", "zone-of-nobody"))
				env.Must(t, controller.await(t.Context(), "leases", controller.leads))
				env.Must(t, node.ended())
				for _, metrics := range controller.metrics(t) {
					metrics.check(t, controller)
				}
				noneRefused(t, mark, controller, node)
				env.Must(t, errors.Join(controller.ended(), node.ended()))
			})
		}
	}
}

func now(t *testing.T) env.Mark {
	t.Helper()
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	return mark
}

// leaseOf is the name of the Lease of a sidecar. By these names, the operator removes what the sidecars have made.
func leaseOf(container, csiName string) string {
	return driver.LeaseOf(strings.TrimPrefix(container, "csi-"), csiName)
}

// leads returns an error until every sidecar that elects has its Lease, for as long as its argument says.
func (p *pod) leads() error {
	for _, container := range p.spec.Containers {
		if p.running[container.Name] == nil || !slices.Contains(container.Args, leaderElection) {
			continue
		}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: p.v.namespace(), Name: leaseOf(container.Name, p.v.driverName())}
		if err := suite.cluster.Client.Get(context.Background(), key, lease); err != nil {
			return fmt.Errorf("%s does not lead: %w%s", container.Name, err, p.words(container.Name))
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.LeaseDurationSeconds == nil {
			return fmt.Errorf("%s does not lead: nobody holds Lease %s", container.Name, key.Name)
		}
		wanted := fmt.Sprintf("%s-lease-duration=%s", leaderElection, time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second)
		if !slices.ContainsFunc(container.Args, func(argument string) bool { return sameDuration(argument, wanted) }) {
			return fmt.Errorf("%s has Lease %s for %ds, which no flag says", container.Name, key.Name, *lease.Spec.LeaseDurationSeconds)
		}
	}
	return nil
}

// resigned returns an error for each sidecar that has ended and keeps its Lease, although a flag says to give it back. The next leader
// would wait until it has run out.
func (p *pod) resigned(ctx context.Context) error {
	var problems []error
	for _, container := range p.spec.Containers {
		if !strings.Contains(strings.Join(container.Args, " "), "ReleaseLeaderElectionOnExit=true") {
			continue
		}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: p.v.namespace(), Name: leaseOf(container.Name, p.v.driverName())}
		if err := suite.cluster.Client.Get(ctx, key, lease); err != nil {
			problems = append(problems, err)
		} else if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			problems = append(problems, fmt.Errorf("%s has ended and still holds Lease %s", container.Name, key.Name))
		}
	}
	return errors.Join(problems...)
}

// sameDuration reports whether two arguments are the same but for how a duration is written.
func sameDuration(a, b string) bool {
	nameA, valueA, _ := strings.Cut(a, "=")
	nameB, valueB, _ := strings.Cut(b, "=")
	durationA, errA := time.ParseDuration(valueA)
	durationB, errB := time.ParseDuration(valueB)
	return nameA == nameB && errA == nil && errB == nil && durationA == durationB
}

// words are what a program says about having no right, to be put after a sentence.
func (p *pod) words(container string) string {
	for _, sentence := range p.refusals() {
		if strings.HasPrefix(sentence, container+": ") {
			return "\n" + sentence
		}
	}
	return ""
}

// noLeases ends the leadership of the programs of a test: the next ones would wait for minutes.
func noLeases(t *testing.T, namespace string) {
	t.Helper()
	err := suite.cluster.Client.DeleteAllOf(context.Background(), &coordinationv1.Lease{}, client.InNamespace(namespace))
	if err != nil {
		t.Error(err)
	}
}

// noneRefused fails the test for each request of the pods that was refused, with the program, the verb and the resource.
func noneRefused(t *testing.T, mark env.Mark, pods ...*pod) {
	t.Helper()
	accounts := map[string]bool{}
	for _, p := range pods {
		accounts[p.spec.ServiceAccountName] = true
	}
	for account := range accounts {
		requests, err := suite.cluster.Audit.Since(mark, user(pods[0].v, account))
		env.Must(t, err)
		said := map[string]bool{}
		for _, request := range requests {
			if sentence := refusal(request); sentence != "" && !said[sentence] {
				said[sentence] = true
				t.Errorf("%s: %s", pods[0].v, sentence)
			}
		}
	}
}

// refusal says which program may not do what, or nothing.
func refusal(request env.Request) string {
	if !request.IsRefused() || probed(request) {
		return ""
	}
	resource := request.Object.Resource
	if request.Object.Subresource != "" {
		resource += "/" + request.Object.Subresource
	}
	if request.Object.Group != "" {
		resource += "." + request.Object.Group
	}
	return fmt.Sprintf("%s may not %s %s: %s", program(request), request.Verb, resource, request.Response.Message)
}

// probed reports whether the request only asked whether a kind is there. The snapshotter asks for groups of snapshots when it starts, and
// goes on without them (external-snapshotter v8.7.0 cmd/csi-snapshotter/main.go:259-267). No driver here can make groups.
func probed(request env.Request) bool {
	return program(request) == "csi-snapshotter" && request.Object.Group == "groupsnapshot.storage.k8s.io" && request.Verb == "list"
}

// program is the first word of what a client says it is: client-go takes the name of the program's file.
func program(request env.Request) string {
	name, _, _ := strings.Cut(request.UserAgent, "/")
	return name
}

func user(v *variant, account string) string {
	return "system:serviceaccount:" + v.namespace() + ":" + account
}

// topology says to the driver where all volumes are.
func (p driverProfile) topology() string {
	if p.TopologyKey == "" {
		return ""
	}
	segments := p.TopologyKey + "=" + p.zone
	for _, key := range p.NodeTopologyKeys {
		segments += "," + key + "=" + p.zone
	}
	return segments
}

// nodeID is the ID that the driver gives to a node.
func (p driverProfile) nodeID(name string) string {
	return strings.Replace(cmp.Or(p.InTree.Node, "%s"), "%s", name, 1)
}

// at is the profile of a driver that runs on a node of a zone.
func (p driverProfile) at(node, zone string) driverProfile {
	p.node, p.zone = node, zone
	return p
}

// A flag that a program does not know, and a verb that a role lacks, are named: a failure of these tests says what to mend.
func TestAFailureNamesTheProgramAndWhatItLacks(t *testing.T) {
	base := suite.variants["awsebs"][0]
	// The accounts are there, and no roles.
	for _, object := range base.objects {
		if object.GetKind() == "ServiceAccount" {
			env.Must(t, suite.cluster.Client.Create(t.Context(), object.DeepCopy()))
			t.Cleanup(func() {
				if err := suite.cluster.Client.Delete(context.Background(), object.DeepCopy()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Run("flag", func(t *testing.T) {
		spec := *base.deployment.Spec.Template.Spec.DeepCopy()
		for i := range spec.Containers {
			if spec.Containers[i].Name == "csi-attacher" {
				spec.Containers[i].Args = append(spec.Containers[i].Args, "--workers=100")
			}
		}
		p, err := startPod(t.Context(), base, without(spec, proxyName), suite.profiles["awsebs"].at("a", "b"))
		env.Must(t, err)
		t.Cleanup(func() { p.report(t) })
		t.Cleanup(p.kill)
		err = p.await(t.Context(), "leases", p.leads)
		if err == nil || !strings.Contains(err.Error(), "csi-attacher has ended: flag provided but not defined: -workers") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("verb", func(t *testing.T) {
		// The first thing that a sidecar wants is its Lease.
		mark := now(t)
		p, err := startPod(t.Context(), base, without(base.deployment.Spec.Template.Spec, proxyName), suite.profiles["awsebs"].at("a", "b"))
		env.Must(t, err)
		t.Cleanup(func() { p.report(t) })
		t.Cleanup(p.kill)
		env.Eventually(t, "a refused request", func() error {
			requests, err := suite.cluster.Audit.Since(mark, user(p.v, p.spec.ServiceAccountName))
			if err != nil {
				return err
			}
			for _, request := range requests {
				if strings.HasPrefix(refusal(request), "csi-attacher may not get leases.coordination.k8s.io: ") {
					return nil
				}
			}
			return errors.New("none is of csi-attacher")
		})
	})
}

// without leaves out containers by the end of their names.
func without(spec corev1.PodSpec, name string) corev1.PodSpec {
	spec = *spec.DeepCopy()
	spec.Containers = slices.DeleteFunc(spec.Containers, func(container corev1.Container) bool {
		return strings.Contains(container.Name, name)
	})
	return spec
}
