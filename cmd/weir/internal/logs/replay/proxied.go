package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// forwardingFields are the fields in which proxies pass the address of a client on.
var forwardingFields = []accesslog.Field{
	accesslog.Forwarded, "header:x-real-ip", "header:cf-connecting-ip",
}

// Bounds of the addresses that are collected.
const (
	maxPeers  = 1000    // more private addresses are the clients of a network, not proxies
	maxOthers = 100_000 // in each field
)

// proxied collects addresses as long as those that are counted are all private: then they are
// probably those of proxies, and the clients stand in another field.
type proxied struct {
	dimension string // of the addresses
	peers     map[netip.Addr]bool
	others    []map[netip.Addr]bool // by field of forwardingFields
	clients   bool                  // an address was that of a client, and nothing more is collected
}

// add adds the address that a request is counted by.
func (p *proxied) add(dimension string, at netip.Addr, e *accesslog.Entry) {
	if p.clients {
		return
	}
	if !clientaddr.IsPrivate(at) || len(p.peers) == maxPeers {
		*p = proxied{clients: true}
		return
	}
	if p.peers == nil {
		p.dimension = dimension
		p.peers = map[netip.Addr]bool{}
		p.others = make([]map[netip.Addr]bool, len(forwardingFields))
	}
	p.peers[at] = true
	for i, f := range forwardingFields {
		list, has := e.Get(f)
		if !has || len(p.others[i]) == maxOthers {
			continue
		}
		client, ok := clientaddr.Private.Follow(at, string(list), true)
		if !ok || client == at {
			continue
		}
		if p.others[i] == nil {
			p.others[i] = map[netip.Addr]bool{}
		}
		p.others[i][client] = true
	}
}

// doubt returns the reason why the addresses are probably not those of clients, with the next
// step; "" if there is none.
func (p *proxied) doubt() string {
	most := 0
	for i := range p.others {
		if len(p.others[i]) > len(p.others[most]) {
			most = i
		}
	}
	if p.others == nil || len(p.others[most]) <= len(p.peers) {
		return ""
	}
	field := string(forwardingFields[most])
	next := fmt.Sprintf("write --key %s=%s", p.dimension, field)
	if forwardingFields[most] == accesslog.Forwarded {
		field = "x-forwarded-for"
		next = "add --trusted-proxies " + strings.Join(p.ranges(), ",")
	}
	values := "values"
	if len(p.peers) == 1 {
		values = "value"
	}
	return fmt.Sprintf("%s has %d %s, all of them private addresses, as proxies have, "+
		"while %s has %d other addresses; if these are the clients, %s",
		p.dimension, len(p.peers), values, field, len(p.others[most]), next)
}

// ranges returns the private ranges of the peers; of IPv6 their prefixes of 64 bits.
func (p *proxied) ranges() (all []string) {
	for a := range p.peers {
		text := clientaddr.Key(a, clientaddr.Bits)
		for _, r := range clientaddr.Private {
			if a.Is4() && r.Contains(a) {
				text = r.String()
			}
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}
