package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The format of signatures that cosign verifies (sigstore/cosign v2.6.5, specs/SIGNATURE_SPEC.md).
const (
	payloadType         = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// signedText is the text that a signature signs.
type signedText struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// readKey reads a private key for signatures: ECDSA, in PEM format, without a password.
func readKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("KEY=%s: %w", file, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("KEY=%s: the file has no key in PEM format", file)
	}
	if strings.Contains(block.Type, "ENCRYPTED") {
		return nil, fmt.Errorf("KEY=%s: the key has a password: make a key without one, with openssl genpkey -algorithm EC "+
			"-pkeyopt ec_paramgen_curve:P-256", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("KEY=%s: it is not a private key in PKCS #8: %w", file, err)
	}
	key, is := parsed.(*ecdsa.PrivateKey)
	if !is {
		return nil, fmt.Errorf("KEY=%s: it is not a key for ECDSA", file)
	}
	return key, nil
}

// sign returns an image that holds the signature of an image with this digest. sign uses no source of random numbers, so the signature is
// deterministic (RFC 6979), and a repeated command writes the same signature.
func sign(key *ecdsa.PrivateKey, repository, digest string) (v1.Image, error) {
	var about signedText
	about.Critical.Identity.Reference, about.Critical.Image.Digest, about.Critical.Type = repository, digest, "cosign container image signature"
	text, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("signature of %s: %w", repository, err)
	}
	sum := sha256.Sum256(text)
	signature, err := key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signature of %s: %w", repository, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	signed, err := mutate.Append(base, mutate.Addendum{
		Layer:       static.NewLayer(text, payloadType),
		Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return nil, fmt.Errorf("signature of %s: %w", repository, err)
	}
	return signed, nil
}

// sign makes a signature for the image, the index or the SBOM that has this digest. Then it pushes the signature.
func (c registryClient) sign(ctx context.Context, key *ecdsa.PrivateKey, of built, digest string) error {
	signature, err := sign(key, of.Repository(), digest)
	if err != nil {
		return err
	}
	_, err = c.pushBeside(ctx, of, digest, "sig", signature)
	return err
}
