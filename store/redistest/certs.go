//go:build unix

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs are the files of a certificate that vouches for itself, for 127.0.0.1 and
// localhost, as server and as client.
type Certs struct {
	CA, Cert, Key string // paths
	pair          tls.Certificate
	pool          *x509.CertPool
}

// NewCerts makes certificates that last as long as the test.
func NewCerts(t testing.TB) *Certs {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writeCerts(t, pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", secret))
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeCerts(t testing.TB, cert, key []byte) *Certs {
	t.Helper()
	dir := t.TempDir()
	c := &Certs{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "cert.key"), pool: x509.NewCertPool()}
	for file, text := range map[string][]byte{c.CA: cert, c.Cert: cert, c.Key: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.pair, err = tls.X509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	c.pool.AppendCertsFromPEM(cert)
	return c
}

// Config is that of a client.
func (c *Certs) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.pool, Certificates: []tls.Certificate{c.pair}}
}

// args tell a server, and what it connects to.
func (c *Certs) args() []string {
	return []string{
		"--tls-ca-cert-file", c.CA, "--tls-cert-file", c.Cert, "--tls-key-file", c.Key,
		"--tls-replication", "yes", "--tls-auth-clients", "yes",
	}
}
