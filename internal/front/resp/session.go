package resp

import (
	"strings"

	"github.com/weirlimit/weir/internal/listen"
)

// session is what a client has said of itself, and the answers that it waits for.
type session struct {
	server      *Server
	peer        *listen.Conn // its connection; nil for that of another listener
	id          int64
	name        string  // of CLIENT SETNAME
	protocol    int     // 2 or 3
	certificate Grant   // nil = none
	passwords   []Grant // the newest first; each gives a right that those before it do not
	rights      Rights  // by certificate and passwords, as of the last recheck
	ended       bool    // nothing is answered any more
	decided     bool    // it has asked for a decision
	args        []string
	batch       batch
	out         []byte // answers
}

// answer answers the commands at the beginning of text, in their order, and returns
// how much of it they are. An error means that nobody knows where the next one
// begins; what came before it is answered.
func (c *session) answer(text string) (used int, err error) {
	c.endRevoked()
	for !c.ended && c.enter() {
		args, size, bad := parse(text[used:], c.args[:0])
		c.args = args[:0]
		if size == 0 || bad != nil {
			err = bad
			break
		}
		used += size
		if len(args) > 0 {
			c.command(args)
		}
	}
	c.settle()
	clear(c.args[:cap(c.args)]) // they point into text
	return used, err
}

// command answers one command, or puts it off until settle.
func (c *session) command(args []string) {
	cmd := commandNamed(args[0])
	switch {
	case c.locked() && (cmd == nil || !cmd.open):
		c.settle()
		c.unauthorized("NOAUTH", "Authentication required. Send AUTH with the token of this listener first")
	case cmd == nil:
		c.settle()
		c.refuse(unknownCommand(args[0]))
	case len(args)-1 < cmd.least || len(args)-1 > cmd.most:
		c.settle()
		c.refuse("wrong number of arguments for '" + strings.ToLower(cmd.name) + "' command; write " + cmd.usage)
	case cmd.needs&^c.may() != 0:
		c.settle()
		c.unauthorized("NOPERM", cmd.name+" is for operators: send AUTH with their token, or use their listener over HTTP")
	case cmd.decide == nil:
		c.settle()
		cmd.say(c, args[1:])
	case c.server.config.Waits && !cmd.alone:
		c.decided = true
		c.putOff(cmd, args[1:])
	default:
		c.decided = true
		c.settle()
		c.out = cmd.decide(c.server, c.out, args[1:])
	}
}

// recheck computes the rights anew: a credential may have been revoked.
func (c *session) recheck() {
	c.rights = 0
	if c.certificate != nil {
		c.rights = c.certificate()
	}
	for _, g := range c.passwords {
		c.rights |= g()
	}
}

// endRevoked ends the session if the credential that let it ask was revoked.
func (c *session) endRevoked() {
	if c.certificate == nil && len(c.passwords) == 0 {
		return
	}
	before := c.locked()
	if c.recheck(); c.locked() && !before {
		c.unauthorized("NOAUTH", "the token or certificate of this connection was revoked; connect again with one that is in force")
		c.ended = true
	}
}

// enter takes a slot for a client that has the right to ask. It reports false, and the
// session has ended, if there is none.
func (c *session) enter() bool {
	if c.peer.Admitted() || c.locked() || c.peer.Admit() {
		return true
	}
	c.settle()
	c.out = appendError(c.out, codeInput, "max number of clients reached; close connections that are not used")
	c.ended = true
	return false
}

// may is what the client may do.
func (c *session) may() Rights { return c.rights | c.server.config.Guard.Anybody }

// locked reports whether a password is still to be said.
func (c *session) locked() bool { return c.may()&MayDecide == 0 }

// unauthorized answers a client that has not shown the token that it needs.
func (c *session) unauthorized(code, problem string) {
	c.server.counts.unauthorized.Add(1)
	c.out = appendError(c.out, code, problem)
}

// refuse answers with an error of the input.
func (c *session) refuse(problem string) {
	c.server.counts.refused.Add(1)
	c.out = appendError(c.out, codeInput, problem)
}
