package driver

import (
	"crypto/x509"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
)

const (
	// CloudCAKey is the key of the cloud's CA certificates, in the cluster's ConfigMap and in the driver's.
	CloudCAKey = "ca-bundle.pem"
	// cloudCAFolder is the folder in the driver's container with the file CloudCAKey.
	cloudCAFolder = "/var/run/configmaps/cloud-ca"
)

// Certificates returns the valid certificates in a bundle, in PEM. It drops other text, other blocks and invalid certificates. This operator's
// clients skip all of these, too (crypto/x509, CertPool.AppendCertsFromPEM). The drivers of OpenStack skip other text and other blocks, but exit on
// an invalid certificate (client-go v0.36.3, util/cert/pem.go ParseCertsPEM). A private key in the bundle reaches no pod.
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

// CloudCABundle returns the name of the driver's ConfigMap with the CA certificates of its cloud. Pods can't mount the cluster's ConfigMap from
// another namespace.
func (d Driver) CloudCABundle() string { return d.Prefix + "-cloud-ca-bundle" }

// usesCloudCA reports whether the driver needs the CA certificates of the cloud, and the cloud has such certificates.
func (d Driver) usesCloudCA(cfg Config) bool { return d.CloudCAVariable != "" && cfg.CloudCA != "" }

// fillCloudCA writes the certificates into the driver's ConfigMap. The asset has no placeholder for them, because a placeholder can't hold several
// lines.
func (d Driver) fillCloudCA(cfg Config, bundle *corev1.ConfigMap) error {
	if bundle.Name == d.CloudCABundle() {
		bundle.Data = map[string]string{CloudCAKey: cfg.CloudCA}
	}
	return nil
}

// addCloudCA mounts the certificates into the driver container of the controller, because only this container calls the cloud.
func (d Driver) addCloudCA(cfg Config, pods Pods) error {
	if pods.Workload != Controller || !d.usesCloudCA(cfg) {
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
