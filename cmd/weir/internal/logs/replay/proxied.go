package replay

import (
	"fmt"
	"net/netip"
	"regexp"
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

// proxied collects the counted addresses of requests, and the addresses in their forwarding fields.
// If there are far more of the latter, the counted addresses are probably those of proxies.
//
// A script can write any number of addresses into these fields. So at least half of the counted
// addresses must pass others on. Private addresses are compared on their own with the addresses that
// they pass on, since no client on the Internet has one.
type proxied struct {
	dimension string
	peers     map[netip.Addr]bool // by counted address: it passed another address on
	requests  int64               // requests from peers
	passing   int                 // peers that passed an address on
	cdn       int                 // peers of Cloudflare
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
	isForwarded := slices.ContainsFunc(forwardingFields, func(f accesslog.Field) bool {
		_, has := e.Get(f)
		return has
	})
	if !isForwarded && len(p.peers) == maxPeers {
		return // too many for proxies; a look-up of each would take time
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
		if slices.ContainsFunc(cloudflare, func(r netip.Prefix) bool { return r.Contains(at) }) {
			p.cdn++
		}
	}
	p.requests++
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
			passes = true
			p.peers[at] = true
			p.passing++
		}
	}
}

// add adds an address that a peer passed on.
func (o *passedOn) add(client netip.Addr, private bool) {
	byPrivate, known := o.all[client]
	isNews := !known || private && !byPrivate
	if !isNews || !known && len(o.all) == maxOthers {
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

// clientBefore returns the address that the peer at passed on: the last one on the Internet, or
// else the first. Proxies, also those that are trusted, stand behind it. ok is false if there is
// none.
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
		list = list[:max(i, 0)]
		more = i >= 0
	}
	return a, ok
}

// doubt returns the reason why the addresses are probably not those of clients, with the next
// step; "" if there is none. names are the fields of the log.
func (p *proxied) doubt(names []string) string {
	byPrivate := 0 // the field that names the most addresses passed on by private peers
	byAll := 0     // the field that names the most addresses
	for i := range p.others {
		if p.others[i].byPrivate > p.others[byPrivate].byPrivate {
			byPrivate = i
		}
		if len(p.others[i].all) > len(p.others[byAll].all) {
			byAll = i
		}
	}
	if len(p.others) == 0 {
		return ""
	}
	if n := p.others[byPrivate].byPrivate; n > p.private {
		kind := ", all of them private addresses, as proxies have"
		if p.private < len(p.peers) {
			kind = fmt.Sprintf(", %d of them private, as proxies have", p.private)
		}
		return p.sentence(byPrivate, n, kind, strings.Join(p.ranges(), ","))
	}
	n := len(p.others[byAll].all)
	mostPass := p.passing*2 >= len(p.peers)
	if mostPass && len(p.peers) < maxPeers && n >= proxyFactor*len(p.peers) {
		return p.sentence(byAll, n, "", "RANGES, those of your proxies or CDN")
	}
	if n == 0 {
		return p.unlogged(names)
	}
	return ""
}

// busyPeer is the least mean of requests of a counted address from which private addresses without
// a forwarding field are probably those of proxies: fewer may be a few visits of colleagues.
const busyPeer = 20

// unlogged returns the doubt about addresses that pass none on: the log has no field with those of
// the clients, or one with a name of its own.
func (p *proxied) unlogged(names []string) string {
	var kind, ranges string
	switch {
	case p.cdn*2 > len(p.peers):
		kind = "most of them of Cloudflare"
		ranges = "RANGES, those of Cloudflare"
	case p.private == len(p.peers) && p.requests >= busyPeer*int64(len(p.peers)):
		kind = "all of them private addresses, as proxies have"
		ranges = strings.Join(privateRanges(p.peers, func(bool) bool { return true }), ",")
	default:
		return ""
	}
	next := "log X-Forwarded-For and add --trusted-proxies " + ranges
	for _, name := range names {
		if clientName.MatchString(name) && !slices.Contains(knownNames, name) {
			next = fmt.Sprintf("name the field with the clients: --key %s=%s, if that is one",
				p.dimension, name)
		}
	}
	return fmt.Sprintf("%s has %d %s, %s; if they are not the clients, %s", p.dimension,
		len(p.peers), p.values(), kind, next)
}

// clientName matches usual names of fields with the client behind a proxy.
var clientName = regexp.MustCompile(`(?i)forwarded|real.?ip|client.?(ip|addr)|connecting.?ip`)

// knownNames are names of such fields that every format has.
var knownNames = []string{"remote_addr", "x_forwarded_for", "x-forwarded-for"}

// values returns the word for the counted addresses.
func (p *proxied) values() string {
	if len(p.peers) == 1 {
		return "value"
	}
	return "values"
}

// cloudflare are the published addresses of Cloudflare, from which its requests come.
var cloudflare = prefixes("173.245.48.0/20 103.21.244.0/22 103.22.200.0/22 103.31.4.0/22 " +
	"141.101.64.0/18 108.162.192.0/18 190.93.240.0/20 188.114.96.0/20 197.234.240.0/22 " +
	"198.41.128.0/17 162.158.0.0/15 104.16.0.0/13 104.24.0.0/14 172.64.0.0/13 131.0.72.0/22 " +
	"2400:cb00::/32 2606:4700::/32 2803:f800::/32 2405:b500::/32 2405:8100::/32 " +
	"2a06:98c0::/29 2c0f:f248::/32")

func prefixes(text string) (all []netip.Prefix) {
	for _, one := range strings.Fields(text) {
		all = append(all, netip.MustParsePrefix(one))
	}
	return all
}

// sentence returns the reason of doubt with the next step: a field has n addresses, and the counted
// ones are of a kind. ranges are those of the proxies.
func (p *proxied) sentence(field, n int, kind, ranges string) string {
	name := string(forwardingFields[field])
	next := fmt.Sprintf("write --key %s=%s", p.dimension, name)
	if forwardingFields[field] == accesslog.Forwarded {
		name = "x-forwarded-for"
		next = "add --trusted-proxies " + ranges
	}
	return fmt.Sprintf("%s has %d %s%s, while %s has %d other addresses; "+
		"if these are the clients, %s",
		p.dimension, len(p.peers), p.values(), kind, name, n, next)
}

// ranges returns the private ranges of the peers that pass addresses on.
func (p *proxied) ranges() []string {
	return privateRanges(p.peers, func(passes bool) bool { return passes })
}

// privateRanges returns the private ranges of the peers for which is reports true; of IPv6 their
// prefixes of 64 bits.
func privateRanges(peers map[netip.Addr]bool, is func(passes bool) bool) (all []string) {
	for a, passes := range peers {
		if !is(passes) || !clientaddr.IsPrivate(a) {
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
