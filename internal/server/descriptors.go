package server

import (
	"fmt"

	"github.com/weirlimit/weir/internal/listen"
)

// portions are how many connections each kind of listener admits at once. Together they
// leave enough file descriptors for the store, for files and for whoever watches the
// process: at the limit of descriptors the system accepts nobody, on any listener, and
// a crowd on one would silence /livez on another.
type portions struct {
	each  int // of listeners for programs and proxies
	admin int
	spare int // beyond these, on every listener: for probes, and to answer callers that there are too many

	descriptors int // how many the process may have, where they make each less than was asked for; otherwise 0
}

// portion splits descriptors, 0 for no known limit, among so many listeners of which
// each should admit most connections. admin is whether there is a listener for operators
// besides.
func portion(descriptors, listeners, most int, admin bool) portions {
	p := portions{each: most, spare: spareConns}
	all := listeners
	if admin {
		p.admin = adminConns
		all++
	}
	if descriptors == 0 {
		return p
	}
	p.admin = min(p.admin, max(descriptors/8, 1))
	own := min(3*descriptors/8, 64)
	left := descriptors - p.admin - own
	p.spare = min(p.spare, max(left/(10*all), 1))
	if each := max((left-all*p.spare)/listeners, 1); each < p.each {
		p.each, p.descriptors = each, descriptors
	}
	return p
}

// adminConns bounds the connections to the admin listener, spareConns those beyond the
// bound of any listener.
const (
	adminConns = 100
	spareConns = 16
)

// splitDescriptors splits what the process may have. admin is whether there is a
// listener for operators.
func (s *Server) splitDescriptors(admin bool) {
	listeners := 1
	for _, address := range []string{s.config.GRPCListen, s.config.RESPListen} {
		if address != "" {
			listeners++
		}
	}
	s.portions = portion(listen.Descriptors(), listeners, s.config.Limits.Conns, admin)
	s.config.Limits.Conns = s.portions.each
}

// warning is what an operator should know of them, or "".
func (p *portions) warning() string {
	if p.descriptors == 0 || p.each >= 1000 {
		return ""
	}
	return fmt.Sprintf("%d file descriptors allow %d connections to each listener, further ones are refused; raise ulimit -n, or LimitNOFILE= of systemd", p.descriptors, p.each)
}
