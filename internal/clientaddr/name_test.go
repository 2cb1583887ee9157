package clientaddr

import "testing"

func TestIsName(t *testing.T) {
	for _, name := range []string{
		"ip", "addr", "address", "client_ip", "client-ip", "remote_addr", "clientip", "remoteaddr",
		"masked_remote_address", "ip.v4", "ip_prefix", "ipaddress", "client_ipv6",
	} {
		if !IsName(name) {
			t.Errorf("%s is not called like an address", name)
		}
	}
	for _, name := range []string{
		"user", "vip", "zip", "membership", "ship_to", "email_address", "mac-address", "tip", "addressee",
	} {
		if IsName(name) {
			t.Errorf("%s is called like an address", name)
		}
	}
}
