package awsefs

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// driverImage is what the pods rely on in an image of the driver. Both images start as root: upstream's base has USER 0 (eks-distro-build-tooling
// 02b104b8, eks-distro-base/Dockerfile.minimal-base, stage base).
type driverImage struct {
	// entrypoint is the driver. static is the folder with its static files, which it copies behind link, and argument says where it reads that.
	entrypoint, static, argument string
	// programs are folders with programs that the driver starts. authorities is the file with the CA certificates that it trusts.
	programs, authorities string
}

// link is where the driver makes a link, or a folder, when it starts. It exits if it can't (driver v3.4.1, cmd/main.go:31 and :65,
// pkg/driver/config_dir.go).
const link = "/etc/amazon/efs"

// driverImages are the images among which images/images.yaml chooses.
func driverImages() map[string]driverImage {
	return map[string]driverImage{
		"upstream": {
			// Driver v3.4.1, Dockerfile:125, :112 and :119; the default of the argument is in pkg/driver/options.go:54.
			entrypoint: "/bin/aws-efs-csi-driver", static: "/etc/amazon/efs-static-files", argument: "--efs-utils-static-files-path",
			// Dockerfile:79-102; the base has all of /etc/pki (eks-distro-build-tooling 02b104b8, eks-distro-base/Dockerfile.minimal-base).
			programs: "/usr/bin /sbin /usr/lib/python3.11/site-packages", authorities: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		},
		"built": {
			// images/aws-efs-csi-driver/Containerfile, which test/images compares.
			entrypoint: "/usr/bin/aws-efs-csi-driver", static: "/usr/share/aws-efs-csi-driver/efs-static-files", argument: "--efs-utils-static-files-path",
			programs: "/usr/bin /usr/sbin /usr/local/lib/python3.9/site-packages", authorities: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		},
	}
}

// The pods fit both images of the driver in each configuration: the choice is one line of a list, and no asset knows about it.
func TestThePodsFitBothImagesOfTheDriver(t *testing.T) {
	variants := ownVariants()
	variants["base"] = func(*driver.Config) {}
	for variant, change := range variants {
		pods := map[string]corev1.PodSpec{}
		for _, object := range render(t, config(t, change)) {
			switch workload := object.(type) {
			case *appsv1.Deployment:
				pods["controller"] = workload.Spec.Template.Spec
			case *appsv1.DaemonSet:
				pods["node"] = workload.Spec.Template.Spec
			}
		}
		if len(pods) != 2 {
			t.Fatalf("%s: %d kinds of pods", variant, len(pods))
		}
		for name, pod := range pods {
			for source, image := range driverImages() {
				for _, problem := range image.problems(pod) {
					t.Errorf("%s, %s pod, image %s: %s", variant, name, source, problem)
				}
			}
		}
	}
}

// A change that breaks one of the images is noticed.
func TestPodsThatDoNotFitAnImageAreNoticed(t *testing.T) {
	mount := func(path string) func(*corev1.Container) {
		return func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{MountPath: path})
		}
	}
	yes, user := true, int64(1000)
	for what, change := range map[string]func(*corev1.Container){
		"a command":                      func(c *corev1.Container) { c.Command = []string{"/usr/bin/aws-efs-csi-driver"} },
		"another place for static files": func(c *corev1.Container) { c.Args = append(c.Args, "--efs-utils-static-files-path=/usr/share") },
		"static files under a volume":    mount("/etc/amazon"),
		"the link under a volume":        mount(link),
		"programs under a volume":        mount("/usr"),
		"a root that is read-only":       func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = &yes },
		"another user":                   func(c *corev1.Container) { c.SecurityContext.RunAsUser = &user },
	} {
		for source, image := range driverImages() {
			if what == "static files under a volume" && source == "built" {
				continue
			}
			container := corev1.Container{Name: driverContainer, SecurityContext: &corev1.SecurityContext{}}
			change(&container)
			if len(image.problems(corev1.PodSpec{Containers: []corev1.Container{container}})) != 1 {
				t.Errorf("%s is not noticed for the image %s", what, source)
			}
		}
	}
}

// problems returns why the driver would not start, or not work, in this pod.
func (i driverImage) problems(pod corev1.PodSpec) []string {
	var found []string
	for _, container := range pod.Containers {
		if container.Name != driverContainer {
			continue
		}
		if len(container.Command) > 0 {
			found = append(found, "the command is not "+i.entrypoint)
		}
		for _, argument := range container.Args {
			if strings.HasPrefix(argument, i.argument+"=") {
				found = append(found, argument+" names the static files of one image only")
			}
		}
		for _, mount := range container.VolumeMounts {
			for _, needed := range append(strings.Fields(i.programs), i.entrypoint, i.static, link) {
				if strings.HasPrefix(needed+"/", strings.TrimSuffix(mount.MountPath, "/")+"/") {
					found = append(found, "a volume at "+mount.MountPath+" covers "+needed)
					break
				}
			}
			if strings.HasPrefix(mount.MountPath, "/etc/pki") && !strings.HasPrefix(i.authorities, mount.MountPath+"/") {
				found = append(found, "the certificates in "+mount.MountPath+" are not where the image has its own, "+i.authorities)
			}
		}
		security := container.SecurityContext
		if security != nil && security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem {
			found = append(found, "the root is read-only, so the driver can't make "+link)
		}
		if security != nil && (security.RunAsUser != nil && *security.RunAsUser != 0 || security.RunAsNonRoot != nil && *security.RunAsNonRoot) {
			found = append(found, "the user is not root, who owns /etc/amazon in the image")
		}
	}
	return found
}
