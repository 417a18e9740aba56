package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"
)

// PeerConfig says whom to call, and where that may be.
type PeerConfig struct {
	URL        string
	AllowCIDRs []string // networks that are reached although they are not public
	CAFile     string   // roots to trust instead of the system's
}

// Peer is somebody outside whom this server calls: at one address, without
// following redirects, without a proxy of the environment, and nowhere that the
// guard forbids. It is safe for concurrent use.
type Peer struct {
	url       *url.URL
	transport *http.Transport
}

// Times and sizes of any peer.
const (
	dialWithin     = 10 * time.Second
	maxURL         = 2000     // bytes
	maxHeaderBytes = 64 << 10 // of an answer
)

// NewPeer checks a configuration and reports all that is wrong, each with its key.
// It calls nobody.
func NewPeer(c PeerConfig) (*Peer, error) {
	to, errURL := parseURL(c.URL)
	allow, errCIDR := parseCIDRs(c.AllowCIDRs)
	roots, errCA := readRoots(c.CAFile)
	if err := errors.Join(errURL, errCIDR, errCA); err != nil {
		return nil, err
	}
	if to.Scheme == "http" && len(allow) == 0 {
		return nil, fmt.Errorf("url: %s is without TLS: use https, or list its network in allow_cidrs", to.Redacted())
	}
	return &Peer{to, transport(guard{allow: allow, only: to.Scheme == "http"}, roots)}, nil
}

// transport speaks HTTP/1.1 alone, where it can be told whether anything of a
// request has left. With HTTP/2 that is only said afterwards, if at all.
func transport(g guard, roots *x509.CertPool) *http.Transport {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialWithin, Control: g.control}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    dialWithin,
		Protocols:              http1,
		DisableCompression:     true, // what is read is as long as what came
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        time.Minute,
	}
}

// URL returns the address.
func (p *Peer) URL() string { return p.url.String() }

// Client returns a client to call this peer with, and nobody else: whether it may go
// without TLS was decided for this address. through, if not nil, wraps its transport.
func (p *Peer) Client(through func(http.RoundTripper) http.RoundTripper) *http.Client {
	c := &http.Client{
		Transport:     p.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if through != nil {
		c.Transport = through(p.transport)
	}
	return c
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("url: want the address to call, like https://ops.example.com/run")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("url: want a scheme and a host, like https://ops.example.com/run")
	case u.User != nil:
		return nil, errors.New("url: take the user and the password out; secrets are files")
	case u.Fragment != "" || len(text) > maxURL:
		return nil, fmt.Errorf("url: want no #fragment, and at most %d bytes", maxURL)
	}
	return u, nil
}

func parseCIDRs(texts []string) (all []netip.Prefix, err error) {
	for i, text := range texts {
		p, bad := prefix(text)
		switch {
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("allow_cidrs[%d]: %q: want an address or a network, like 10.0.0.7 or 10.0.0.0/8", i, text))
		case p.Bits() == 0:
			err = errors.Join(err, fmt.Errorf("allow_cidrs[%d]: %s is everything, also what clouds keep credentials at; list the networks that are meant", i, text))
		}
		all = append(all, p)
	}
	return all, err
}

// prefix reads an address or a network. One of IPv4 is never written as IPv6:
// addresses are compared without that disguise.
func prefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() {
		return p, errors.New("IPv4 in IPv6")
	}
	return p.Masked(), err
}

// readRoots reads certificates of authorities; without a file they are the system's.
func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // no pool is the system's
	}
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file: no certificate in %s; want PEM", file)
	}
	return pool, nil
}
