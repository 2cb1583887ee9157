package resp

import (
	"crypto/tls"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// session is the state of one client, with the answers that wait to be sent.
type session struct {
	server      *Server
	peer        *listen.Conn // its connection; nil for other listeners
	id          int64
	name        string               // of CLIENT SETNAME
	protocol    int                  // 2 or 3
	certificate *tls.ConnectionState // may hold a certificate that gives rights; nil = none does
	passwords   []password           // the newest first; each gives a right that the ones before it do not
	rights      rights               // by certificate and passwords, at the last recheck
	ended       bool                 // no further command is answered
	args        []string
	batch       []waiting
	out         []byte // answers
}

// answer answers the commands at the beginning of text, in their order, and returns their
// size. After an error the start of the next command is unknown; the commands before it
// are answered.
func (c *session) answer(text string) (used int, err error) {
	c.endRevoked()
	for !c.ended && c.takeSlot() {
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
	c.flush()
	clear(c.args[:cap(c.args)]) // its strings point into text
	return used, err
}

// command answers one command, or adds it to the batch.
func (c *session) command(args []string) {
	cmd := commandNamed(args[0])
	switch {
	case c.locked() && (cmd == nil || !cmd.open):
		c.unauthorized("NOAUTH", "Authentication required. Send AUTH with the token of this listener first")
	case cmd == nil:
		c.reject(unknownCommand(args[0]))
	case len(args)-1 < cmd.least || len(args)-1 > cmd.most:
		c.reject("wrong number of arguments for '" + strings.ToLower(cmd.name) + "' command; write " + cmd.usage)
	case cmd.needs&^c.may() != 0:
		c.unauthorized("NOPERM", cmd.name+" is for operators: send AUTH with their token, or use their listener over HTTP")
	case cmd.reply != nil:
		c.flush()
		cmd.reply(c, args[1:])
	case c.server.config.Waits && cmd.decides():
		c.enqueue(cmd, args[1:])
	default:
		c.flush()
		c.out = cmd.run(c.server, c.out, args[1:])
	}
}

// recheck updates the rights: a credential may have been revoked.
func (c *session) recheck() {
	c.rights = 0
	if c.certificate != nil && c.server.config.TLS.Verified(c.peer, c.certificate) {
		c.rights = c.server.programs
	}
	for _, p := range c.passwords {
		c.rights |= c.server.rightsOf(p)
	}
}

// endRevoked ends the session if its last credential was revoked.
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

// takeSlot takes a slot for an authenticated client. It reports false, and ends the
// session, if no slot is free.
func (c *session) takeSlot() bool {
	if c.peer.Admitted() || c.locked() || c.peer.Admit() {
		return true
	}
	c.flush()
	c.out = appendError(c.out, codeInput, "max number of clients reached; close unused connections")
	c.ended = true
	return false
}

// may returns the rights of the client.
func (c *session) may() rights { return c.rights | c.server.anybody }

// locked reports whether the client must still authenticate.
func (c *session) locked() bool { return c.may()&mayDecide == 0 }

// unauthorized answers a command without the necessary credential, after the batch.
func (c *session) unauthorized(code, problem string) {
	c.flush()
	c.server.Counts.Unauthorized.Add(1)
	c.out = appendError(c.out, code, problem)
}

// reject answers bad input, after the batch.
func (c *session) reject(problem string) {
	c.flush()
	c.server.Counts.Rejected.Add(1)
	c.out = appendError(c.out, codeInput, problem)
}
