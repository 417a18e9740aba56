package webhook

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// guard says which addresses may be dialled. It is asked about the address that a
// name was resolved to, when it is dialled: a name that is looked up again and
// means something else now is of no use to anybody. The zero value lets public
// addresses pass.
type guard struct {
	allow []netip.Prefix // also if they are not public
	only  bool           // nothing but allow
}

// control is for net.Dialer.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	ip := to.Addr().Unmap().WithZone("")
	switch {
	case slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return nil
	case g.only:
		return fmt.Errorf("%s is reached without TLS, and is not in allow_cidrs: use https, or list its network there", ip)
	case !public(ip):
		return fmt.Errorf("%s is not a public address: if it is meant, list its network in allow_cidrs", ip)
	}
	return nil
}

// public reports whether an address belongs to the public internet. Of IPv6 only
// global unicast does, so that unique local, link-local, site-local and multicast
// addresses, IPv4 in disguise, and 64:ff9b:: (NAT64) are out as a whole.
func public(ip netip.Addr) bool {
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return false
	}
	return !slices.ContainsFunc(special[:], func(p netip.Prefix) bool { return p.Contains(ip) })
}

var globalUnicast = netip.MustParsePrefix("2000::/3")

// special are the networks that IANA keeps for something else.
var special = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this host
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // carriers' NAT; metadata of some clouds
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local; metadata of most clouds
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // protocols; metadata of some clouds
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/3"),     // multicast, reserved, broadcast
	netip.MustParsePrefix("2001::/23"),       // protocols, among them Teredo
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: IPv4 inside
	netip.MustParsePrefix("3fff::/20"),       // documentation
}
