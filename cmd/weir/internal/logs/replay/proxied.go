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
	maxPeers  = maxOthers / proxyFactor // more cannot be those of proxies by proxyFactor
	maxOthers = 100_000                 // in each field
)

// proxyFactor is the least number of clients for each counted address from which the counted
// addresses are probably those of proxies. Ordinary clients have forward proxies too, as a
// company has, and each passes on the addresses of a few devices.
const proxyFactor = 10

// proxied collects the addresses that requests are counted by, and those that their forwarding
// fields name. With far more of the latter, the former are probably those of proxies.
//
// A script can write any number of addresses into these fields. So at least half of the counted
// addresses must pass others on. A private address is different: no client on the Internet has it,
// so private addresses are compared with what they pass on alone.
type proxied struct {
	dimension string
	peers     map[netip.Addr]bool // by counted address: it passed another address on
	passing   int                 // peers that passed an address on
	private   int                 // peers with a private address
	others    []passedOn          // by field of forwardingFields
}

// passedOn is the addresses that one field names.
type passedOn struct {
	all       map[netip.Addr]bool // by address: a private peer passed it on
	byPrivate int
}

// loopback is the address that stands for a Unix socket, which only this host can reach.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// add adds the address that a request is counted by.
func (p *proxied) add(dimension string, at netip.Addr, trusted clientaddr.Proxies, e *accesslog.Entry) {
	if p.peers == nil {
		p.dimension = dimension
		p.peers = map[netip.Addr]bool{}
		p.others = make([]passedOn, len(forwardingFields))
	}
	private := clientaddr.IsPrivate(at)
	passes, known := p.peers[at]
	if !known {
		if len(p.peers) == maxPeers {
			return
		}
		p.peers[at] = false
		if private {
			p.private++
		}
	}
	for i, f := range forwardingFields {
		list, has := e.Get(f)
		if !has {
			continue
		}
		client, ok := clientBefore(at, string(list), trusted)
		if !ok {
			continue
		}
		p.others[i].add(client, private)
		if !passes {
			passes, p.peers[at] = true, true
			p.passing++
		}
	}
}

// add adds an address that a peer passed on.
func (o *passedOn) add(client netip.Addr, private bool) {
	byPrivate, known := o.all[client]
	if byPrivate || known && !private || !known && len(o.all) == maxOthers {
		return
	}
	if o.all == nil {
		o.all = map[netip.Addr]bool{}
	}
	o.all[client] = private
	if private {
		o.byPrivate++
	}
}

// clientBefore returns the address that the peer at passed on: the last one on the Internet, or else
// the first. Proxies, also those that are trusted, stand behind it. ok is false if there is none.
func clientBefore(at netip.Addr, list string, trusted clientaddr.Proxies) (a netip.Addr, ok bool) {
	for more := true; more; {
		i := strings.LastIndexByte(list, ',')
		a, ok = clientaddr.ParseNode(strings.Trim(list[i+1:], " \t"))
		switch {
		case !ok:
			return a, false
		case a == at || trusted.Trusts(a):
			ok = false
		case !clientaddr.IsPrivate(a):
			return a, true
		}
		list, more = list[:max(i, 0)], i >= 0
	}
	return a, ok
}

// doubt returns the reason why the addresses are probably not those of clients, with the next
// step; "" if there is none.
func (p *proxied) doubt() string {
	byPrivate, byAll := 0, 0 // fields
	for i := range p.others {
		if p.others[i].byPrivate > p.others[byPrivate].byPrivate {
			byPrivate = i
		}
		if len(p.others[i].all) > len(p.others[byAll].all) {
			byAll = i
		}
	}
	if p.others == nil {
		return ""
	}
	if n := p.others[byPrivate].byPrivate; n > p.private {
		kind := ", all of them private addresses, as proxies have"
		if p.private < len(p.peers) {
			kind = fmt.Sprintf(", %d of them private, as proxies have", p.private)
		}
		return p.sentence(byPrivate, n, kind, strings.Join(p.ranges(), ","))
	}
	n, mostPass := len(p.others[byAll].all), p.passing*2 >= len(p.peers)
	if mostPass && len(p.peers) < maxPeers && n >= proxyFactor*len(p.peers) {
		return p.sentence(byAll, n, "", "RANGES, those of your proxies or CDN")
	}
	return ""
}

// sentence returns the reason of doubt with the next step: a field has n addresses, and the counted
// ones are of a kind. ranges are those of the proxies.
func (p *proxied) sentence(field, n int, kind, ranges string) string {
	name := string(forwardingFields[field])
	next := fmt.Sprintf("write --key %s=%s", p.dimension, name)
	if forwardingFields[field] == accesslog.Forwarded {
		name, next = "x-forwarded-for", "add --trusted-proxies "+ranges
	}
	values := "values"
	if len(p.peers) == 1 {
		values = "value"
	}
	return fmt.Sprintf("%s has %d %s%s, while %s has %d other addresses; if these are the clients, %s",
		p.dimension, len(p.peers), values, kind, name, n, next)
}

// ranges returns the private ranges of the peers that pass addresses on; of IPv6 their prefixes of
// 64 bits.
func (p *proxied) ranges() (all []string) {
	for a, passes := range p.peers {
		if !passes || !clientaddr.IsPrivate(a) {
			continue
		}
		text := clientaddr.Key(a, clientaddr.Bits)
		for _, r := range clientaddr.Private {
			if a.Is4() && r.Contains(a) {
				text = r.String()
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
