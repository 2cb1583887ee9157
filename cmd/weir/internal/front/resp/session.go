package resp

import (
	"crypto/tls"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// session is the state of one client, with the answers that wait to be sent.
type session struct {
	server   *Server
	peer     *listen.Conn // the connection of the client; nil for other listeners
	id       int64
	protocol int // 2 or 3

	certificate *tls.ConnectionState // may hold a certificate that gives rights; nil = none does
	token       listen.Credential    // the last password that was the token of programs
	admin       listen.Credential    // the last password that was the token of operators
	rights      rights               // those of the three credentials above, at the last recheck

	ended bool // no further command is answered
	args  []string
	pairs enforce.Pairs  // the key of the last command
	batch []arguments    // the decisions of the batch
	items []enforce.Item // the same for the store, with their outcomes
	out   []byte         // answers
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
			c.answerCommand(args, used == len(text))
		}
	}
	c.flush()
	clear(c.args[:cap(c.args)]) // its strings point into text
	return used, err
}

// answerCommand answers one command, or adds it to the batch. The last one of a text needs no
// batch, unless others wait in it.
func (c *session) answerCommand(args []string, last bool) {
	cmd := byName[strings.ToUpper(args[0])]
	switch {
	case c.locked() && (cmd == nil || !cmd.open):
		c.unauthorized("NOAUTH", "Authentication required. "+
			"Send AUTH with the token of programs first; "+
			"that of operators alone opens no command")
	case cmd == nil:
		c.reject(unknownCommand(args[0]))
	case len(args)-1 < cmd.least || len(args)-1 > cmd.most:
		c.reject("wrong number of arguments for '" + strings.ToLower(cmd.name) +
			"' command; write " + cmd.usage)
	case cmd.needs&^c.allRights() != 0:
		c.unauthorized("NOPERM", cmd.name+" is for operators: "+
			"send AUTH with their token, or use their listener over HTTP")
	case cmd.reply != nil:
		c.flush()
		cmd.reply(c, args[1:])
	case c.server.config.Waits && cmd.decides() && !(last && len(c.batch) == 0):
		c.enqueue(cmd, args[1:])
	default:
		c.flush()
		c.runCommand(cmd, args[1:])
	}
}

// recheck updates the rights: a credential may have been revoked.
func (c *session) recheck() {
	c.rights = 0
	verified := c.certificate != nil && c.server.config.TLS.Verified(c.peer, c.certificate)
	if c.token.Valid() || verified {
		c.rights = c.server.programs
	}
	if c.admin.Valid() {
		c.rights |= mayReset
	}
}

// endRevoked ends the session if its last credential was revoked.
func (c *session) endRevoked() {
	before := c.locked()
	if c.recheck(); c.locked() && !before {
		c.unauthorized("NOAUTH", "the token or certificate of this connection was revoked; "+
			"connect again with one that is in force")
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

// allRights returns the rights of the client.
func (c *session) allRights() rights { return c.rights | c.server.anybody }

// locked reports whether the client must still authenticate.
func (c *session) locked() bool { return c.allRights()&mayDecide == 0 }

// unauthorized answers a command without the necessary credential, after the batch.
func (c *session) unauthorized(code, problem string) {
	c.flush()
	c.server.Unauthorized.Add(1)
	c.out = appendError(c.out, code, problem)
}

// reject answers bad input, after the batch.
func (c *session) reject(problem string) {
	c.flush()
	c.server.Rejected.Add(1)
	c.out = appendError(c.out, codeInput, problem)
}

// redisVersion is the Redis version of this protocol: clients choose commands by it.
const redisVersion = "7.4.0"

// ping answers PONG, or its argument.
func ping(c *session, args []string) {
	if len(args) == 0 {
		c.out = append(c.out, "+PONG\r\n"...)
		return
	}
	c.out = appendBulk(c.out, args[0])
}

// auth checks a password.
func auth(c *session, args []string) {
	if !c.server.hasPasswords() {
		c.reject("AUTH: this listener requires no token; leave AUTH out, " +
			"or start weir with --token-file")
		return
	}
	user := defaultUser
	if len(args) == 2 {
		user = args[0]
	}
	if c.logIn(user, args[len(args)-1]) && c.takeSlot() {
		c.out = appendOK(c.out)
	}
}

// defaultUser is the only user.
const defaultUser = "default"

// logIn adds the rights of a password; if it is wrong, it answers so and reports false.
// Earlier rights stay, as in Redis.
func (c *session) logIn(user, text string) bool {
	token := c.server.config.Token.Credential(text)
	admin := c.server.config.Admin.Credential(text)
	if user != defaultUser || !token.Valid() && !admin.Valid() {
		c.unauthorized("WRONGPASS", "invalid username-password pair; "+
			"the user is default or left out, the password is the token of this listener")
		return false
	}
	if token.Valid() {
		c.token = token
	}
	if admin.Valid() {
		c.admin = admin
	}
	c.recheck()
	return true
}

// hello selects the protocol, checks the password and describes the server.
func hello(c *session, args []string) {
	protocol := c.protocol
	if len(args) > 0 {
		switch args[0] {
		case "2", "3":
			protocol = int(args[0][0] - '0')
		default:
			c.out = appendError(c.out, "NOPROTO", "unsupported protocol version; use 2 or 3")
			return
		}
		if !c.helloOptions(args[1:]) {
			return
		}
	}
	if c.locked() {
		c.unauthorized("NOAUTH", "HELLO must be called with the client already authenticated, "+
			"otherwise use HELLO 3 AUTH default TOKEN")
		return
	}
	if !c.takeSlot() {
		return
	}
	c.protocol = protocol
	c.out = appendMap(c.out, protocol, 7)
	c.out = appendBulk(appendBulk(c.out, "server"), "weir")
	c.out = appendBulk(appendBulk(c.out, "version"), redisVersion)
	c.out = appendInt(appendBulk(c.out, "proto"), int64(protocol))
	c.out = appendInt(appendBulk(c.out, "id"), c.id)
	c.out = appendBulk(appendBulk(c.out, "mode"), "standalone")
	c.out = appendBulk(appendBulk(c.out, "role"), "master")
	c.out = appendArray(appendBulk(c.out, "modules"), 0)
}

// helloOptions applies AUTH and SETNAME, and reports whether HELLO may go on.
func (c *session) helloOptions(args []string) bool {
	for len(args) > 0 {
		switch option := strings.ToUpper(args[0]); {
		case option == "AUTH" && len(args) >= 3:
			if c.server.hasPasswords() && !c.logIn(args[1], args[2]) {
				return false
			}
			args = args[3:]
		case option == "SETNAME" && len(args) >= 2: // the name has no effect
			args = args[2:]
		default:
			c.reject("Syntax error in HELLO option " + answer.Shown(args[0]) + "; write " +
				byName["HELLO"].usage)
			return false
		}
	}
	return true
}

// client accepts the subcommands of CLIENT that libraries send when they connect. They have no
// effect: SETINFO and SETNAME are for people, and TRACKING caches values that Weir does not have.
func client(c *session, args []string) {
	sub := strings.ToUpper(args[0])
	isName := sub == "SETNAME" && len(args) == 2
	isInfo := sub == "SETINFO" && len(args) == 3
	isTracking := sub == "TRACKING" && len(args) >= 2
	if !isName && !isInfo && !isTracking {
		c.reject("unknown subcommand or wrong number of arguments for CLIENT " +
			answer.Shown(args[0]) + "; it has SETNAME, SETINFO and TRACKING ON|OFF")
		return
	}
	c.out = appendOK(c.out)
}

// selectDatabase accepts database 0.
func selectDatabase(c *session, args []string) {
	if args[0] != "0" {
		c.reject("DB index is out of range; Weir has no databases, only 0")
		return
	}
	c.out = appendOK(c.out)
}

// info answers INFO: the server is ready. ioredis waits for loading:0 before its first command.
func info(c *session, _ []string) {
	c.out = appendBulk(c.out, "# Server\r\nredis_version:"+redisVersion+"\r\n"+
		"redis_mode:standalone\r\n"+
		"# Persistence\r\nloading:0\r\n"+
		"# Replication\r\nrole:master\r\n"+
		"# Cluster\r\ncluster_enabled:0\r\n")
}

// quit ends the connection after the answers.
func quit(c *session, _ []string) {
	c.ended = true
	c.out = appendOK(c.out)
}
