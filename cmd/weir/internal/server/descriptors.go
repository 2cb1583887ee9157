package server

import (
	"fmt"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// connections are the slots of each kind of listener. Together they leave enough file
// descriptors for the store and for files. At the limit of descriptors the system accepts
// no connection on any listener, so a flood on one would silence /livez on another.
type connections struct {
	each  int // of a listener for programs and proxies
	admin int
	spare int // further ones of every listener, for probes and for the answer 503

	descriptors int // the limit of the process, if it reduces each; otherwise 0
}

// splitConnections splits the file descriptors, 0 for no known limit, among the listeners,
// each with most slots if possible. admin is whether operators have one more listener.
func splitConnections(descriptors, listeners, most int, admin bool) connections {
	p := connections{each: most, spare: spareConns}
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

// adminConns is the number of slots of the admin listener, spareConns that of spare slots.
const (
	adminConns = 100
	spareConns = 16
)

// splitDescriptors splits the descriptors of the process. admin is whether operators have
// a listener of their own.
func (s *Server) splitDescriptors(admin bool) {
	listeners := 1
	for _, address := range []string{s.config.GRPCListen, s.config.RESPListen} {
		if address != "" {
			listeners++
		}
	}
	s.connections = splitConnections(listen.Descriptors(), listeners, s.config.Limits.Conns, admin)
	s.config.Limits.Conns = s.connections.each
}

// warning returns a sentence about missing descriptors, or "".
func (p *connections) warning() string {
	if p.descriptors == 0 || p.each >= 1000 {
		return ""
	}
	return fmt.Sprintf("%d file descriptors allow %d connections to each listener, further ones are refused; raise ulimit -n, or LimitNOFILE= of systemd", p.descriptors, p.each)
}
