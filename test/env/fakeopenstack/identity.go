package fakeopenstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net"
	"net/http"
	"time"
)

// login is the body of POST /v3/auth/tokens (keystone api-ref/source/v3/authenticate-v3.inc, keystone/auth/schema.py). Fields that are not
// here are refused, which is stricter.
type login struct {
	Auth struct {
		Identity struct {
			Methods     []string     `json:"methods"`
			Password    *password    `json:"password"`
			Application *application `json:"application_credential"`
		} `json:"identity"`
		Scope *struct {
			Project *project `json:"project"`
		} `json:"scope"`
	} `json:"auth"`
}

type password struct {
	User struct {
		user
		Password string `json:"password"`
	} `json:"user"`
}

type application struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Secret string `json:"secret"`
	User   *user  `json:"user"`
}

type user struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Domain *domain `json:"domain"`
}

type project struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Domain *domain `json:"domain"`
}

type domain struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// tokensCreate logs in.
func (c *Cloud) tokensCreate(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		fault(w, http.StatusBadRequest, "error", "Expecting to find application/json in Content-Type header.")
		return
	}
	wanted := login{}
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil || len(wanted.Auth.Identity.Methods) != 1 {
		fault(w, http.StatusBadRequest, "error", "Expecting to find auth in request body. The server could not comply with the request.")
		return
	}
	who := c.User()
	scoped, status := wanted.check(who)
	if status != 0 {
		message := "The request you have made requires authentication."
		if status == http.StatusBadRequest {
			message = "Invalid input for field 'identity': the user or the project lacks its domain."
		}
		fault(w, status, "error", message)
		return
	}
	token := newToken()
	body := map[string]any{
		"methods": wanted.Auth.Identity.Methods, "audit_ids": []string{"ZzZwkUflQfygX7pdYDBCQQ"},
		"user": map[string]any{"id": who.ID, "name": who.Name, "domain": domain{ID: who.DomainID, Name: who.DomainName}, "password_expires_at": nil},
	}
	c.set(func() {
		const form = "2006-01-02T15:04:05.000000Z"
		now := c.now().UTC()
		c.tokens[token] = now.Add(c.life)
		body["issued_at"], body["expires_at"] = now.Format(form), now.Add(c.life).Format(form)
		if scoped {
			body["project"] = map[string]any{"id": who.ProjectID, "name": who.ProjectName, "domain": domain{ID: who.DomainID, Name: who.DomainName}}
			body["roles"] = []map[string]any{{"id": "r-1", "name": "member"}}
			body["catalog"] = c.catalog()
		}
	})
	w.Header().Set("X-Subject-Token", token)
	w.Header().Set("Vary", "X-Auth-Token")
	answer(w, http.StatusCreated, map[string]any{"token": body})
}

// check is what Keystone checks; status is 0 if it is right. Without a scope the token has no catalogue.
func (l *login) check(who User) (scoped bool, status int) {
	identity := l.Auth.Identity
	switch method := identity.Methods[0]; {
	case method == "password" && identity.Password != nil && identity.Application == nil:
		given := identity.Password.User
		if status := given.is(who); status != 0 {
			return false, status
		}
		if given.Password != who.Password {
			return false, http.StatusUnauthorized
		}
	case method == "application_credential" && identity.Application != nil && identity.Password == nil:
		given := identity.Application
		if l.Auth.Scope != nil {
			// "Application credentials cannot request a scope" (keystone/auth/core.py).
			return false, http.StatusUnauthorized
		}
		if given.ID == "" && given.User == nil {
			return false, http.StatusBadRequest
		}
		if given.ID != who.CredentialID || given.Secret != who.CredentialSecret {
			return false, http.StatusUnauthorized
		}
		return true, 0
	default:
		return false, http.StatusBadRequest
	}
	if l.Auth.Scope == nil || l.Auth.Scope.Project == nil {
		return false, 0
	}
	return true, l.Auth.Scope.Project.is(who)
}

func (u user) is(who User) int {
	if u.ID != "" {
		return unless(u.ID == who.ID)
	}
	return named(u.Name, who.Name, u.Domain, who)
}

func (p project) is(who User) int {
	if p.ID != "" {
		return unless(p.ID == who.ProjectID)
	}
	return named(p.Name, who.ProjectName, p.Domain, who)
}

// named compares a name within its domain. Without a domain Keystone can't know which is meant.
func named(name, wanted string, in *domain, who User) int {
	if name == "" || in == nil || in.ID == "" && in.Name == "" {
		return http.StatusBadRequest
	}
	return unless(name == wanted && (in.ID == who.DomainID || in.ID == "" && in.Name == who.DomainName))
}

func unless(right bool) int {
	if right {
		return 0
	}
	return http.StatusUnauthorized
}

// catalog lists what is not missing, with the three interfaces, and old APIs as clouds still list them. The mutex is held.
func (c *Cloud) catalog() []map[string]any {
	list := []map[string]any{}
	add := func(of Service, kind, path string) {
		if c.missing[of] {
			return
		}
		var endpoints []map[string]any
		for _, name := range []string{"admin", "internal", "public"} {
			address := "https://" + c.address + path
			if name != "public" {
				// Addresses of other networks, unreachable from outside of the cloud.
				address = "https://192.0.2.1" + path
			}
			endpoints = append(endpoints, map[string]any{
				"id": kind + name, "interface": name, "region": c.region, "region_id": c.region, "url": address,
			})
		}
		list = append(list, map[string]any{"id": kind, "name": string(of), "type": kind, "endpoints": endpoints})
	}
	add(Cinder, "volumev2", "/volume/v2/"+c.user.ProjectID)
	add(Manila, "share", "/share/v1/"+c.user.ProjectID)
	add(Keystone, "identity", "/identity")
	add(Nova, "compute", "/compute/v2.1")
	add(Cinder, "volumev3", "/volume/v3/"+c.user.ProjectID)
	add(Manila, "sharev2", "/share/v2")
	return list
}

func newToken() string {
	bytes := make([]byte, 24)
	_, _ = rand.Read(bytes)
	return "gAAAAA" + hex.EncodeToString(bytes)
}

// issuer is a CA.
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	ca          []byte
}

func newIssuer() (issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return issuer{}, fmt.Errorf("key of the cloud's CA: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a cloud"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return issuer{}, fmt.Errorf("the cloud's CA: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return issuer{}, fmt.Errorf("the cloud's CA: %w", err)
	}
	return issuer{certificate: certificate, key: key, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// config serves with a new certificate for a host.
func (i issuer) config(host string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the cloud: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "a cloud"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.ParseIP(host)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.certificate, &key.PublicKey, i.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the cloud: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}
