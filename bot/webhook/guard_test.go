package webhook_test

import (
	"net/netip"
	"testing"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

func TestWhereAWebhookMayGo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		address string
		plain   bool // without TLS
		allow   []string
		ok      bool
	}{
		"a public address":                     {"93.184.215.14", false, nil, true},
		"a public address of IPv6":             {"2606:4700::6810:84e5", false, nil, true},
		"a public address without TLS is not":  {"93.184.215.14", true, nil, false},
		"loopback is not":                      {"127.0.0.1", false, nil, false},
		"all of loopback is not":               {"127.8.8.8", false, nil, false},
		"loopback of IPv6 is not":              {"::1", false, nil, false},
		"the unspecified address is not":       {"0.0.0.0", false, nil, false},
		"this host by another name is not":     {"0.1.2.3", false, nil, false},
		"the unspecified of IPv6 is not":       {"::", false, nil, false},
		"private 10 is not":                    {"10.1.2.3", false, nil, false},
		"private 172 is not":                   {"172.31.255.255", false, nil, false},
		"the address before private 172":       {"172.15.255.255", false, nil, true},
		"the address after private 172":        {"172.32.0.0", false, nil, true},
		"private 192 is not":                   {"192.168.0.1", false, nil, false},
		"unique local is not":                  {"fd12::1", false, nil, false},
		"link-local is not":                    {"169.254.1.1", false, nil, false},
		"link-local of IPv6 is not":            {"fe80::1", false, nil, false},
		"link-local with a zone is not":        {"fe80::1%eth0", false, nil, false},
		"site-local is not":                    {"fec0::1", false, nil, false},
		"carriers' NAT is not":                 {"100.64.0.1", false, nil, false},
		"the metadata of Alibaba is not":       {"100.100.100.200", false, nil, false},
		"the metadata of most clouds is not":   {"169.254.169.254", false, nil, false},
		"the metadata of EC2 over IPv6 is not": {"fd00:ec2::254", false, nil, false},
		"the metadata of GCP over IPv6 is not": {"fd20:ce::254", false, nil, false},
		"the metadata of Oracle is not":        {"192.0.0.192", false, nil, false},
		"multicast is not":                     {"224.0.0.1", false, nil, false},
		"multicast of IPv6 is not":             {"ff02::1", false, nil, false},
		"broadcast is not":                     {"255.255.255.255", false, nil, false},
		"reserved is not":                      {"240.0.0.1", false, nil, false},
		"benchmarks are not":                   {"198.18.0.1", false, nil, false},
		"loopback in IPv6 is not":              {"::ffff:127.0.0.1", false, nil, false},
		"a public address in IPv6":             {"::ffff:93.184.215.14", false, nil, true},
		"an IPv4-compatible address is not":    {"::7f00:1", false, nil, false},
		"loopback behind NAT64 is not":         {"64:ff9b::7f00:1", false, nil, false},
		"local NAT64 is not":                   {"64:ff9b:1::a00:1", false, nil, false},
		"loopback behind 6to4 is not":          {"2002:7f00:1::", false, nil, false},
		"Teredo is not":                        {"2001:0:4136:e378::", false, nil, false},

		"what is listed":                           {"10.1.2.3", false, []string{"10.0.0.0/8"}, true},
		"one address that is listed":               {"10.1.2.3", false, []string{"10.1.2.3"}, true},
		"its neighbour is not":                     {"10.1.2.4", false, []string{"10.1.2.3"}, false},
		"what is listed, in IPv6":                  {"::ffff:10.1.2.3", false, []string{"10.0.0.0/8"}, true},
		"what is listed, without TLS":              {"10.1.2.3", true, []string{"10.0.0.0/8"}, true},
		"what is not listed, without TLS, is not":  {"11.1.2.3", true, []string{"10.0.0.0/8"}, false},
		"a link-local that is listed, with a zone": {"fe80::1%eth0", false, []string{"fe80::/10"}, true},
		"another network than the listed is not":   {"192.168.0.1", false, []string{"10.0.0.0/8"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := netip.AddrPortFrom(netip.MustParseAddr(tt.address), 443).String()
			if err := webhook.Reach(address, tt.plain, tt.allow...); (err == nil) != tt.ok {
				t.Errorf("%s: %v", address, err)
			}
		})
	}
}

// FuzzWhereAWebhookMayGo: no spelling of an IPv4 address that is not public passes.
func FuzzWhereAWebhookMayGo(f *testing.F) {
	for _, ip := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1"} {
		a := netip.MustParseAddr(ip).As4()
		f.Add(a[0], a[1], a[2], a[3])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d byte) {
		v4 := netip.AddrFrom4([4]byte{a, b, c, d})
		if !v4.IsPrivate() && !v4.IsLoopback() && !v4.IsLinkLocalUnicast() && !v4.IsMulticast() && !v4.IsUnspecified() {
			return
		}
		for _, ip := range []netip.Addr{
			v4,
			netip.AddrFrom16(v4.As16()), // ::ffff:
			netip.AddrFrom16([16]byte{12: a, 13: b, 14: c, 15: d}),
			netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: a, 13: b, 14: c, 15: d}),
			netip.AddrFrom16([16]byte{0: 0x20, 1: 0x02, 2: a, 3: b, 4: c, 5: d}),
		} {
			if webhook.Reach(netip.AddrPortFrom(ip, 80).String(), false) == nil {
				t.Errorf("%s may be called", ip)
			}
		}
	})
}
