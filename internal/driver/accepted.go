package driver

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// VersionVariable is the setting with the version of the driver, for images without a version in their tag.
const VersionVariable = "DRIVER_VERSION"

// Accepted returns the rows of Accepts for the driver's version. The version comes from the setting VersionVariable, or else from the image's tag. If
// neither names a version, Accepted assumes the newest version.
func (d Driver) Accepted(cfg Config) accept.Table {
	return d.Accepts.At(cmp.Or(cfg.Settings[VersionVariable], accept.VersionOf(cfg.Images["DRIVER_IMAGE"])))
}

// Problems returns a sentence for each value of a Config that the driver does not accept, sorted. Rendering omits these values.
func (d Driver) Problems(cfg Config) []string {
	_, problems := d.accepted(cfg)
	if d.Check != nil {
		problems = append(problems, d.Check(cfg)...)
	}
	slices.Sort(problems)
	return problems
}

// ResourceTags returns the tags of the Infrastructure that the driver accepts.
func (d Driver) ResourceTags(cfg Config) []accept.Pair {
	cfg, _ = d.accepted(cfg)
	return cfg.Tags
}

// accepted returns the Config without the values that the driver would misread, and a sentence for each such value.
func (d Driver) accepted(cfg Config) (Config, []string) {
	table := d.Accepted(cfg)
	var problems []string
	leaveOut := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	pairs, labels := cfg.resourceTags(), cfg.resourceLabels()
	var refused []accept.Refused
	cfg.Tags, refused = table.Filter(accept.Tag, pairs, ClusterTag(cfg.InfrastructureID))
	for _, one := range refused {
		leaveOut("resource tag %q=%q of the Infrastructure cluster is not put on volumes: %s", one.Key, one.Value, one.Why)
	}
	cfg.Labels, refused = table.Filter(accept.Label, labels)
	for _, one := range refused {
		leaveOut("resource label %q=%q of the Infrastructure cluster is not put on volumes: %s", one.Key, one.Value, one.Why)
	}
	if why := table.Refusal(accept.ClusterName, "", cfg.InfrastructureID); cfg.InfrastructureID != "" && why != "" {
		leaveOut("infrastructureName %q of the Infrastructure cluster is not passed to the driver: %s", cfg.InfrastructureID, why)
		cfg.InfrastructureID = ""
	}
	if why := table.Refusal(accept.Region, "", cfg.Region); cfg.Region != "" && why != "" {
		leaveOut("region %q of the Infrastructure cluster is not passed to the driver: %s", cfg.Region, why)
		cfg.Region = ""
	}
	cfg.Platform = acceptedEndpoints(cfg.Platform, table.Names(accept.Endpoint), leaveOut)
	for _, field := range []struct {
		name     string
		value    *string
		accepted func(string) bool
	}{
		{"httpProxy", &cfg.Proxy.HTTPProxy, accept.IsProxy}, {"httpsProxy", &cfg.Proxy.HTTPSProxy, accept.IsProxy},
		{"noProxy", &cfg.Proxy.NoProxy, accept.IsNoProxy},
	} {
		if *field.value != "" && !field.accepted(*field.value) {
			*field.value = ""
			if !d.usesProxy() {
				continue
			}
			// The value can contain a password.
			leaveOut("status.%s of the Proxy cluster is not passed to the driver, which can't parse it: correct spec.%s", field.name, field.name)
		}
	}
	return cfg, problems
}

// usesProxy reports whether an asset has the annotation with which a container of the driver gets the cluster's proxy.
func (d Driver) usesProxy() bool {
	names, err := fs.Glob(d.Assets, "assets/*.yaml")
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		text, err := fs.ReadFile(d.Assets, name)
		return err == nil && bytes.Contains(text, []byte(proxyAnnotation+":"))
	})
}

// resourceTags returns the tags in the Infrastructure, for all clouds. On GCP, the key of a tag includes the tag's parent.
func (c Config) resourceTags() []accept.Pair {
	var pairs []accept.Pair
	for _, tag := range c.ResourceTags {
		pairs = append(pairs, accept.Pair{Key: tag.Key, Value: tag.Value})
	}
	if c.Platform != nil && c.Platform.GCP != nil {
		for _, tag := range c.Platform.GCP.ResourceTags {
			pairs = append(pairs, accept.Pair{Key: tag.ParentID + "/" + tag.Key, Value: tag.Value})
		}
	}
	if c.Platform != nil && c.Platform.Azure != nil {
		for _, tag := range c.Platform.Azure.ResourceTags {
			pairs = append(pairs, accept.Pair{Key: tag.Key, Value: tag.Value})
		}
	}
	return pairs
}

// resourceLabels returns the labels in the Infrastructure. Only an Infrastructure on GCP has labels.
func (c Config) resourceLabels() []accept.Pair {
	var pairs []accept.Pair
	if c.Platform != nil && c.Platform.GCP != nil {
		for _, label := range c.Platform.GCP.ResourceLabels {
			pairs = append(pairs, accept.Pair{Key: label.Key, Value: label.Value})
		}
	}
	return pairs
}

// acceptedEndpoints omits unusable endpoints of services that the driver calls.
func acceptedEndpoints(platform *configv1.PlatformStatus, called []string, leaveOut func(string, ...any)) *configv1.PlatformStatus {
	if platform == nil || platform.AWS == nil || len(called) == 0 {
		return platform
	}
	platform = platform.DeepCopy()
	platform.AWS.ServiceEndpoints = slices.DeleteFunc(platform.AWS.ServiceEndpoints, func(endpoint configv1.AWSServiceEndpoint) bool {
		wrong := slices.Contains(called, endpoint.Name) && !accept.IsURL(endpoint.URL)
		if wrong {
			// The URL can contain a password.
			leaveOut("the endpoint of service %s of the Infrastructure cluster is not passed to the driver: it must be an https URL with a host, "+
				"an optional path and no user", endpoint.Name)
		}
		return wrong
	})
	return platform
}

// AddValue adds an argument to the driver's container, unless the value is empty.
func (p Pods) AddValue(flag, value string) error {
	container, err := p.Container(Container)
	if err == nil && value != "" {
		container.Args = append(container.Args, flag+"="+openshift.Literal(value))
	}
	return err
}

// AddVariable adds an environment variable to a container, unless the value is empty.
func (p Pods) AddVariable(container, name, value string) error {
	found, err := p.Container(container)
	if err == nil && value != "" {
		found.Env = append(found.Env, corev1.EnvVar{Name: name, Value: openshift.Literal(value)})
	}
	return err
}
