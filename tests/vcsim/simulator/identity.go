package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// identity is what the server proves itself by.
type identity struct {
	certificate  tls.Certificate
	pem          string
	sha1, sha256 string
}

// loadIdentity reads the certificate and its key from a file, or makes them and, where a file is named, keeps them.
func loadIdentity(file string) (*identity, error) {
	if file != "" {
		if text, err := os.ReadFile(file); err == nil {
			return parseIdentity(text)
		}
	}
	text, err := makeIdentity()
	if err != nil {
		return nil, err
	}
	if file != "" {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	}
	return parseIdentity(text)
}

func makeIdentity() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "vcsim"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	authority, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	// The server's own certificate must be none of an authority.
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leafTemplate := *template
	leafTemplate.SerialNumber, leafTemplate.IsCA = big.NewInt(now.UnixNano()+1), false
	leafTemplate.KeyUsage = x509.KeyUsageDigitalSignature
	leaf, err := x509.CreateCertificate(rand.Reader, &leafTemplate, template, &leafKey.PublicKey, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, block := range []*pem.Block{
		{Type: "CERTIFICATE", Bytes: leaf}, {Type: "CERTIFICATE", Bytes: authority}, {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := pem.Encode(&text, block); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

func parseIdentity(text []byte) (*identity, error) {
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	if len(certificate.Certificate) != 2 {
		return nil, fmt.Errorf("%d certificates, not 2", len(certificate.Certificate))
	}
	leaf, authority := certificate.Certificate[0], certificate.Certificate[1]
	one, two := sha1.Sum(leaf), sha256.Sum256(leaf)
	return &identity{
		certificate: certificate,
		pem:         string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority})),
		sha1:        colons(one[:]), sha256: colons(two[:]),
	}, nil
}

func colons(digest []byte) string {
	parts := make([]string, len(digest))
	for i, b := range digest {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
