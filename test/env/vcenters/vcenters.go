// Package vcenters puts a cluster of package env into vSphere. It is a package of its own because a linker needs longer for the simulator of vCenters
// than for the rest of a test.
package vcenters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
)

// vSphereCredentials is the Secret that the installer makes (openshift/installer, pkg/asset/manifests/openshift.go).
const vSphereCredentials = "vsphere-creds"

// ClusterID is the name of a cluster in its vCenters: that of its Infrastructure.
func ClusterID(ctx context.Context, c *env.Cluster) (string, error) {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(infrastructure), infrastructure); err != nil {
		return "", fmt.Errorf("name of the cluster: %w", err)
	}
	return infrastructure.Status.InfrastructureName, nil
}

// Put starts vCenters with the VMs of the nodes, and writes what an installer writes about them: the Infrastructure with a failure domain in
// each, the configuration of the cloud, the CA certificates and the credentials. The nodes say which VMs they are. The cluster has to be one of
// platform VSphere, whose nodes have no other providerID. The caller closes the vCenters.
func Put(ctx context.Context, c *env.Cluster, vcenters int) ([]*fakevsphere.VCenter, error) {
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("nodes of the cluster: %w", err)
	}
	options := make([]fakevsphere.Options, vcenters)
	for i := range options {
		options[i].Datacenters = datacenters(nodes.Items, i, vcenters)
	}
	all, err := fakevsphere.StartAll(options...)
	if err != nil {
		return nil, fmt.Errorf("vCenters of the cluster: %w", err)
	}
	for i, one := range all {
		domain := FailureDomain(one, i, "ds1")
		one.Tag("openshift-region", domain.Region, "/dc1")
		one.Tag("openshift-zone", domain.Zone, "/dc1/host/cluster1")
	}
	if err := errors.Join(Use(ctx, c, all...), NameVMs(ctx, c)); err != nil {
		fakevsphere.CloseAll(all)
		return nil, fmt.Errorf("vSphere of the cluster: %w", err)
	}
	return all, nil
}

// NameVMs lets the nodes say which VMs they are. They must have no other providerID.
func NameVMs(ctx context.Context, c *env.Cluster) error {
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("nodes of the cluster: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if id := "vsphere://" + vmUUID(node.Name); node.Spec.ProviderID != id {
			if err := c.Client.Patch(ctx, node, env.Merge(fmt.Sprintf(`{"spec":{"providerID":%q}}`, id))); err != nil {
				return fmt.Errorf("VM of node %s: %w", node.Name, err)
			}
		}
	}
	return nil
}

// Use writes what an installer writes about vCenters.
func Use(ctx context.Context, c *env.Cluster, all ...*fakevsphere.VCenter) error {
	if err := replaceInfrastructure(ctx, c, all); err != nil {
		return err
	}
	config := fakevsphere.INI(false, all...)
	if len(all) > 1 {
		config = fakevsphere.YAML(false, all...)
	}
	return c.Put(
		ctx, "installer",
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}, Data: map[string]string{cloudconfig.ConfigKey: config},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: driver.ClusterCABundle().Namespace, Name: driver.ClusterCABundle().Name},
			Data:       map[string]string{driver.TrustedCAKey: string(fakevsphere.Roots(all...))},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: vSphereCredentials}, Data: fakevsphere.SecretData(all...),
		},
	)
}

// UsePlaceholders writes what the Assisted Installer writes for a cluster whose vCenter it was not told (openshift/assisted-service,
// internal/provider/vsphere/installConfig.go, setVSpherePlatformValues).
func UsePlaceholders(ctx context.Context, c *env.Cluster) error {
	const server = "vcenterplaceholder"
	if err := replaceInfrastructure(ctx, c, []*fakevsphere.VCenter{{Server: server}}); err != nil {
		return err
	}
	config := strings.Join([]string{
		"[Global]", `secret-name = "vsphere-creds"`, `secret-namespace = "kube-system"`, `insecure-flag = "1"`, "[Workspace]", `server = "vcenterplaceholder"`,
		`datacenter = "datacenterplaceholder"`, `default-datastore = "defaultdatastoreplaceholder"`, `folder = "/datacenterplaceholder/vm/test"`,
		`resourcepool-path = "/datacenterplaceholder/host/clusterplaceholder//Resources"`, `[VirtualCenter "vcenterplaceholder"]`,
		`datacenters = "datacenterplaceholder"`, "",
	}, "\n")
	return c.Put(
		ctx, "installer",
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}, Data: map[string]string{cloudconfig.ConfigKey: config},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: vSphereCredentials}, Data: map[string][]byte{
			server + ".username": []byte("usernameplaceholder"), server + ".password": []byte("passwordplaceholder"),
		}},
	)
}

// replaceInfrastructure makes the Infrastructure anew: it takes no more than one vCenter where it had none.
func replaceInfrastructure(ctx context.Context, c *env.Cluster, all []*fakevsphere.VCenter) error {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(infrastructure), infrastructure); err != nil {
		return fmt.Errorf("the Infrastructure: %w", err)
	}
	if err := c.Client.Delete(ctx, infrastructure); err != nil {
		return fmt.Errorf("replace the Infrastructure: %w", err)
	}
	spec := &configv1.VSpherePlatformSpec{}
	for i, one := range all {
		spec.VCenters = append(spec.VCenters, configv1.VSpherePlatformVCenterSpec{Server: one.Server, Datacenters: []string{"dc1"}})
		spec.FailureDomains = append(spec.FailureDomains, FailureDomain(one, i, "ds1"))
	}
	infrastructure.ObjectMeta = metav1.ObjectMeta{Name: infrastructure.Name}
	infrastructure.Spec.PlatformSpec = configv1.PlatformSpec{Type: configv1.VSpherePlatformType, VSphere: spec}
	status := infrastructure.Status
	if err := c.Client.Create(ctx, infrastructure); err != nil {
		return fmt.Errorf("replace the Infrastructure: %w", err)
	}
	infrastructure.Status = status
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.VSpherePlatformType, VSphere: &configv1.VSpherePlatformStatus{
		APIServerInternalIPs: []string{}, IngressIPs: []string{}, MachineNetworks: []configv1.CIDR{},
	}}
	if err := c.Client.Status().Update(ctx, infrastructure); err != nil {
		return fmt.Errorf("replace the Infrastructure: %w", err)
	}
	return nil
}

// FailureDomain is one in a vCenter of Put, by a number and a datastore.
func FailureDomain(in *fakevsphere.VCenter, number int, datastore string) configv1.VSpherePlatformFailureDomainSpec {
	return configv1.VSpherePlatformFailureDomainSpec{
		Name: fmt.Sprintf("domain-%d", number), Region: fmt.Sprintf("region-%d", number), Zone: fmt.Sprintf("zone-%d", number), Server: in.Server,
		Topology: configv1.VSpherePlatformTopology{
			Datacenter: "dc1", ComputeCluster: "/dc1/host/cluster1", Networks: []string{"VM Network"}, Datastore: "/dc1/datastore/" + datastore,
			Folder: "/dc1/vm/nodes", ResourcePool: "/dc1/host/cluster1/Resources",
		},
	}
}

// datacenters are the inventory of one of several vCenters, which share the nodes.
func datacenters(nodes []corev1.Node, index, vcenters int) []fakevsphere.Datacenter {
	cluster := fakevsphere.Cluster{Name: "cluster1", Hosts: []fakevsphere.Host{{Name: "esx1"}, {Name: "esx2"}}}
	for i := range nodes {
		if i%vcenters == index {
			name := nodes[i].Name
			cluster.VMs = append(cluster.VMs, fakevsphere.VM{Name: name, UUID: vmUUID(name), Folder: "nodes", Host: "esx1", Disks: 1})
		}
	}
	return []fakevsphere.Datacenter{{
		Name: "dc1", Clusters: []fakevsphere.Cluster{cluster}, Datastores: []fakevsphere.Datastore{{Name: "ds1"}, {Name: "ds2"}}, Folders: []string{"nodes"},
	}}
}

// vmUUID is that of the VM of a node. It is the same for all tests: nobody can change the providerID of a node.
func vmUUID(node string) string {
	sum := sha256.Sum256([]byte(node))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
