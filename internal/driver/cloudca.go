package driver

import (
	"crypto/x509"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
)

const (
	// CloudCAKey is the key of the cloud's CA certificates: in the cluster's ConfigMap and in that of the driver.
	CloudCAKey = "ca-bundle.pem"
	// cloudCAFolder is where the driver has the file of that name.
	cloudCAFolder = "/var/run/configmaps/cloud-ca"
)

// Certificates are the certificates in a bundle, in PEM. Text beside them, other blocks and certificates that can't be parsed are left out: this
// operator's clients skip the same (crypto/x509, CertPool.AppendCertsFromPEM), and so do the drivers of OpenStack, but for the last kind, at which
// they end (client-go v0.36.3, util/cert/pem.go ParseCertsPEM). A private key in the bundle reaches no pod.
func Certificates(bundle string) string {
	var found []byte
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, pem.EncodeToMemory(block)...)
		}
	}
	return string(found)
}

// CloudCABundle is the name of the driver's ConfigMap with the CA certificates of its cloud. Pods can't mount that of the cluster,
// which is in another namespace.
func (d Driver) CloudCABundle() string { return d.Prefix + "-cloud-ca-bundle" }

// followsCloudCA tells whether there are certificates, and a driver that wants them.
func (d Driver) followsCloudCA(cfg Config) bool { return d.CloudCAVariable != "" && cfg.CloudCA != "" }

// fillCloudCA puts the certificates into the driver's ConfigMap. They have lines, which no placeholder may have.
func (d Driver) fillCloudCA(cfg Config, bundle *corev1.ConfigMap) error {
	if bundle.Name == d.CloudCABundle() {
		bundle.Data = map[string]string{CloudCAKey: cfg.CloudCA}
	}
	return nil
}

// addCloudCA gives the certificates to the driver in the controller: nothing else calls the cloud.
func (d Driver) addCloudCA(cfg Config, pods Pods) error {
	if pods.Workload != Controller || !d.followsCloudCA(cfg) {
		return nil
	}
	container, err := pods.Container(Container)
	if err != nil {
		return err
	}
	const name = "cloud-ca-bundle"
	pods.addFile(name, d.CloudCABundle(), CloudCAKey, CloudCAKey)
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: cloudCAFolder, ReadOnly: true})
	container.Env = append(container.Env, corev1.EnvVar{Name: d.CloudCAVariable, Value: cloudCAFolder + "/" + CloudCAKey})
	return nil
}
