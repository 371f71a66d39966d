package all

import (
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// Seeds for "make test". "make soak" chooses its own.
const shareOfSeeds = 5

func TestWhatADriverGetsOfTheClusterItReadsBack(t *testing.T) {
	for seed := range uint64(shareOfSeeds) {
		for _, d := range Drivers() {
			readsBack(t, d, seed)
		}
	}
}

func FuzzWhatADriverGetsOfTheClusterItReadsBack(f *testing.F) {
	// This seed produces an endpoint with a scheme and no host.
	f.Add(uint64(47))
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, d := range Drivers() {
			readsBack(t, d, seed)
		}
	})
}

// maker makes what the API of OpenShift accepts (openshift/api 264e80a2b6e7, config/v1 types_infrastructure.go, types_proxy.go), and what breaks parsers
// more often than people do.
type maker struct{ *rand.Rand }

func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

// text returns random characters of an alphabet, up to a maximum length.
func (m maker) text(alphabet string, most int) string {
	length := 1 + m.IntN(min(most, 12))
	if m.IntN(8) == 0 {
		length = most
	}
	var made strings.Builder
	for range length {
		made.WriteByte(alphabet[m.IntN(len(alphabet))])
	}
	return made.String()
}

// fit returns a random text that matches a pattern.
func (m maker) fit(matches func(string) bool, alphabet string, most int) string {
	for {
		if text := m.text(alphabet, most); matches(text) {
			return text
		}
	}
}

const (
	small   = "abcxyz"
	letters = small + "ABCXYZ0123456789"
	// awsTags are the characters that the API allows in tags, where +-@ is a range.
	awsTags = letters + "_.:/=+@ ,-;<>? :, :"
)

func (m maker) config(cfg *driver.Config) {
	cfg.InfrastructureID = m.one("dev-x7k2p", "dev-x7k2p", m.text(small+"-", 27), m.text(letters+"-._ ,=/:$()\n", 70), "a$(POD_NAME)", "Dev.X", strings.Repeat("n", 110))
	cfg.Region = m.one("us-east-1", "us-gov-west-1", m.text(letters+"-. /$\n", 20))
	cfg.Images["DRIVER_IMAGE"] = "registry.example/driver:" + m.one("v1", "v1.7.7", "v2.1.11", "v2.1.12", "v2.1.15", "v2.2.0", "v3.4.1", "v1.33.2", "v1.34.0")
	cfg.Proxy = configv1.ProxyStatus{HTTPProxy: m.address(), HTTPSProxy: m.address(), NoProxy: m.text(letters+".,/:*$() \n", 60)}
	cfg.Platform = &configv1.PlatformStatus{Type: cfg.Platform.Type}
	switch cfg.Platform.Type {
	case configv1.AWSPlatformType:
		m.aws(cfg)
	case configv1.AzurePlatformType:
		m.azure(cfg)
	case configv1.GCPPlatformType:
		m.gcp(cfg)
	}
}

func (m maker) address() string {
	return m.one("", "http://", "https://", "socks5://", "ftp://", " ") + m.one("", "user:p%40ss@", "u:$$$(HOME)$@", "u:%zz@") +
		m.one("proxy.example", "[2001:db8::1]", "10.0.0.1", "proxy example", "", "a\nb", "$(HOST)") + m.one("", ":3128", ":x", "/", "/?a#b")
}

func (m maker) aws(cfg *driver.Config) {
	cfg.Platform.AWS = &configv1.AWSPlatformStatus{}
	for range m.IntN(26) {
		cfg.ResourceTags = append(cfg.ResourceTags, configv1.AWSResourceTag{
			Key:   m.one(m.text(awsTags, 128), m.text(small+"A", 2), "Cost Center", "aws:x", "kubernetes.io/x", driver.ClusterTag(cfg.InfrastructureID)),
			Value: m.one(m.text(awsTags, 256), m.text(" :"+small, 3)),
		})
	}
	for _, service := range []string{driver.EC2, driver.EFS} {
		if m.IntN(2) == 0 {
			cfg.Platform.AWS.ServiceEndpoints = append(cfg.Platform.AWS.ServiceEndpoints, configv1.AWSServiceEndpoint{Name: service,
				URL: "https://" + m.one("ec2.example", "", "u:p@x", "a b", "$(HOST)", "x%zz") + m.one("", ":8443", "/p/$$a", "?a=b", "#", "/\n")})
		}
	}
}

func (m maker) azure(cfg *driver.Config) {
	cfg.Platform.Azure = &configv1.AzurePlatformStatus{}
	isKey := func(text string) bool {
		first, last := text[0], text[len(text)-1]
		return strings.IndexByte("0123456789_.-", first) < 0 && strings.IndexByte(".-", last) < 0
	}
	for range m.IntN(11) {
		cfg.Platform.Azure.ResourceTags = append(cfg.Platform.Azure.ResourceTags, configv1.AzureResourceTag{
			Key:   m.one(m.fit(isKey, letters+"_.-", 128), m.fit(isKey, "aA", 2), "storageclassname"),
			Value: m.text(strings.ReplaceAll(awsTags, " ", ""), 256),
		})
	}
}

func (m maker) gcp(cfg *driver.Config) {
	cfg.Platform.GCP = &configv1.GCPPlatformStatus{}
	outer := func(text string) bool {
		return strings.IndexByte(letters, text[0]) >= 0 && strings.IndexByte(letters, text[len(text)-1]) >= 0
	}
	isSmall := func(text string) bool { return strings.IndexByte(small, text[0]) >= 0 }
	// Keys are those of a map in the API.
	for i := range m.IntN(33) {
		cfg.Platform.GCP.ResourceLabels = append(cfg.Platform.GCP.ResourceLabels, configv1.GCPResourceLabel{
			Key: m.fit(isSmall, small+"0_-", 60) + fmt.Sprint(i), Value: m.text(small+"0_-", 63),
		})
	}
	for i := range m.IntN(51) {
		cfg.Platform.GCP.ResourceTags = append(cfg.Platform.GCP.ResourceTags, configv1.GCPResourceTag{
			ParentID: m.one("1", "123456789012", "project-1", strings.Repeat("9", 32)),
			Key:      m.fit(outer, letters+"_.-", 60) + fmt.Sprint(i), Value: m.fit(outer, letters+"_.@%=+:,*#&()[]{}-, \t\n", 63),
		})
	}
}

// rendered has the arguments, variables and files of a driver's containers.
type rendered struct {
	flags, variables map[string]string
	classes          []map[string]string
	files            map[string]string
	// calls means that a container needs the cluster's proxy.
	calls bool
}

func gather(objects []client.Object) rendered {
	got := rendered{flags: map[string]string{}, variables: map[string]string{}, files: map[string]string{}}
	pods := func(spec corev1.PodSpec) {
		for _, container := range spec.Containers {
			for _, argument := range container.Args {
				if flag, value, found := strings.Cut(argument, "="); found && container.Name == driver.Container {
					got.flags[flag] = variants.Expanded(value)
				}
			}
			for _, variable := range container.Env {
				got.variables[variable.Name] = variants.Expanded(variable.Value)
			}
		}
	}
	for _, object := range objects {
		got.calls = got.calls || object.GetAnnotations()["config.openshift.io/inject-proxy"] != ""
		switch typed := object.(type) {
		case *appsv1.Deployment:
			pods(typed.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			pods(typed.Spec.Template.Spec)
		case *storagev1.StorageClass:
			got.classes = append(got.classes, typed.Parameters)
		case *snapshotv1.VolumeSnapshotClass:
			got.classes = append(got.classes, typed.Parameters)
		case *corev1.ConfigMap:
			maps.Copy(got.files, typed.Data)
		}
	}
	return got
}

func readsBack(t *testing.T, d driver.Driver, seed uint64) {
	t.Helper()
	m := maker{rand.New(rand.NewPCG(seed, 36))}
	var cfg driver.Config
	got := gather(variants.Render(t, d, func(made *driver.Config) {
		m.config(made)
		made.CloudCA = driver.Certificates(m.bundle())
		cfg = *made
	}))
	problems := d.Problems(cfg)
	fail := func(format string, values ...any) {
		t.Errorf("%s, seed %d: %s\nproblems: %q", d.Name, seed, fmt.Sprintf(format, values...), problems)
	}
	// same expects a value unchanged, or no value and a message about it.
	same := func(where, want, got, named string) {
		isNamed := slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, named) })
		if got != want && (got != "" || !isNamed) || got == want && want != "" && isNamed {
			fail("%s is %q, want %q", where, got, want)
		}
	}
	for name, value := range map[string]string{"httpProxy": cfg.Proxy.HTTPProxy, "httpsProxy": cfg.Proxy.HTTPSProxy, "noProxy": cfg.Proxy.NoProxy} {
		variable := strings.ToUpper(strings.Replace(name, "P", "_P", 1))
		if !got.calls {
			continue
		}
		if same(variable, value, got.variables[variable], "status."+name+" "); name != "noProxy" && got.variables[variable] != "" && !isProxy(value) {
			fail("no program in Go reads the proxy %q", value)
		}
	}
	for name, flag := range map[string]string{
		"ebs.csi.aws.com": "--k8s-tag-cluster-id", "cinder.csi.openstack.org": "--cluster", "manila.csi.openstack.org": "--cluster-id",
	} {
		if d.Name == name {
			same(flag, cfg.InfrastructureID, got.flags[flag], fmt.Sprintf("infrastructureName %q", cfg.InfrastructureID))
		}
	}
	if d.Platform == configv1.AWSPlatformType {
		same("AWS_REGION", cfg.Region, got.variables["AWS_REGION"], fmt.Sprintf("region %q", cfg.Region))
	}
	for _, endpoint := range d.Accepts.Names(accept.Endpoint) {
		for _, named := range cfg.Platform.AWS.ServiceEndpoints {
			if named.Name == endpoint {
				same("AWS_EC2_ENDPOINT", named.URL, got.variables["AWS_EC2_ENDPOINT"], "the endpoint of service "+endpoint)
				printed := slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, named.URL) })
				// The message itself contains the scheme.
				if printed && named.URL != "https://" {
					fail("a problem prints an endpoint, which may hold a password")
				}
				if parsed, err := url.Parse(got.variables["AWS_EC2_ENDPOINT"]); err != nil || got.variables["AWS_EC2_ENDPOINT"] != "" && parsed.Hostname() == "" {
					fail("the AWS SDK can't call %q: %v", named.URL, err)
				}
			}
		}
	}
	checkLists(d, cfg, got, problems, fail)
	for block, rest := pem.Decode([]byte(got.files[driver.CloudCAKey])); d.CloudCAVariable != "" && (block != nil || len(rest) > 0); block, rest = pem.Decode(rest) {
		if block == nil || block.Type != "CERTIFICATE" {
			fail("the CA certificates have something else")
			break
		}
	}
}

// checkLists expects each tag and label, or a message about it, and nothing else except for the driver's own.
func checkLists(d driver.Driver, cfg driver.Config, got rendered, problems []string, fail func(string, ...any)) {
	table := d.Accepted(cfg)
	isNamed := func(named string) bool {
		return slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, named) })
	}
	compare := func(of accept.Subject, text string, own ...string) {
		want := map[string]string{}
		for _, pair := range pairsOf(of, cfg) {
			named := fmt.Sprintf("resource %s %q=%q of", of, pair.Key, pair.Value)
			if _, twice := want[pair.Key]; !twice && !isNamed(named) {
				want[pair.Key] = pair.Value
			} else if !isNamed(named) {
				fail("%s is there twice, and nothing says so", named)
			}
		}
		read := map[string]string{}
		if text != "" {
			var err error
			if read, err = table.List(of).Read(text); err != nil {
				fail("the driver can't read %q: %v", text, err)
			}
		}
		for key, value := range read {
			// A duplicate pair is passed once, or reported once.
			if _, found := want[key]; !found && !slices.Contains(own, key) && !slices.Contains(pairsOf(of, cfg), accept.Pair{Key: key, Value: value}) {
				fail("the driver reads %q=%q, which nobody wants", key, value)
			}
		}
		for key, value := range want {
			if read[key] != value {
				fail("the driver reads %q=%q of %q, want %q", key, read[key], text, value)
			}
		}
	}
	switch {
	case d.Name == "efs.csi.aws.com":
		compare(accept.Tag, got.flags["--tags"], driver.ClusterTag(cfg.InfrastructureID))
	case d.Platform == configv1.AWSPlatformType, d.Platform == configv1.GCPPlatformType:
		compare(accept.Tag, got.flags["--extra-tags"])
		if d.Platform == configv1.GCPPlatformType {
			compare(accept.Label, got.flags["--extra-labels"], "kubernetes-io-cluster-"+cfg.InfrastructureID)
		}
	case d.Platform == configv1.AzurePlatformType:
		for _, class := range got.classes {
			if class["tagValueDelimiter"] == "|" {
				compare(accept.Tag, class["tags"], "storageClassName")
			}
		}
	}
}

func pairsOf(of accept.Subject, cfg driver.Config) []accept.Pair {
	var pairs []accept.Pair
	add := func(key, value string) { pairs = append(pairs, accept.Pair{Key: key, Value: value}) }
	for _, tag := range cfg.ResourceTags {
		add(tag.Key, tag.Value)
	}
	if azure := cfg.Platform.Azure; azure != nil {
		for _, tag := range azure.ResourceTags {
			add(tag.Key, tag.Value)
		}
	}
	if gcp := cfg.Platform.GCP; gcp != nil && of == accept.Tag {
		for _, tag := range gcp.ResourceTags {
			add(tag.ParentID+"/"+tag.Key, tag.Value)
		}
	} else if gcp != nil {
		for _, label := range gcp.ResourceLabels {
			add(label.Key, label.Value)
		}
	}
	return pairs
}

// isProxy reads as golang.org/x/net v0.52.0 does, http/httpproxy/proxy.go parseProxy.
func isProxy(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		parsed, err = url.Parse("http://" + text)
	}
	return err == nil && parsed.Host != "" && !strings.HasPrefix(parsed.Path, "//")
}

func TestEveryRowHasASourceAndSaysWhyItRefuses(t *testing.T) {
	for _, d := range Drivers() {
		// A vendor's driver can ignore the cluster's settings.
		if len(d.Accepts) == 0 && d.Payload != nil {
			t.Errorf("%s accepts nothing", d.Name)
		}
		for _, row := range d.Accepts {
			if row.Of == accept.Instead {
				continue
			}
			refuses := row.Most > 0 || row.Match != "" || row.Except != "" || len(row.Values) > 0 || row.Accepts != nil || row.Has != nil
			if row.Source == "" || refuses != (row.Why != "") {
				t.Errorf("%s: %s %q has source %q and why %q", d.Name, row.Of, row.Name, row.Source, row.Why)
			}
			for _, version := range []string{"0.0.1", row.Since, row.Before, ""} {
				d.Accepts.At(version).Refusal(row.Of, row.Name, "x")
			}
		}
	}
}
