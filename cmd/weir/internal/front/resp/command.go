package resp

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// command is one entry of the table of commands.
type command struct {
	name        string
	usage       string
	least, most int  // arguments after the name
	open        bool // answered before authentication
	needs       rights

	// A command is answered by one of these functions. If both are nil it is decided, as an
	// attempt, a peek or a record; the decisions of a pipeline may be made in one call.
	change func(s *Server, out []byte, a arguments) ([]byte, error)
	reply  func(c *session, args []string)
	op     weir.Op
	syntax syntax // the syntax of the arguments, unless reply is set
}

// decides reports whether the command is an attempt, a peek or a record.
func (c *command) decides() bool { return c.change == nil && c.reply == nil }

// run answers a command without reply.
func (c *session) run(cmd *command, args []string) {
	s := c.server
	a, err := s.readArguments(args, cmd, c.pairs[:0])
	defer clear(a.pairs) // its strings point into the text of the session
	c.pairs = a.pairs
	answered := c.out
	if err == nil {
		err = s.config.Capacity.Do(func() (err error) {
			if cmd.decides() {
				o, err := a.policy.Decide(background, &a.Request)
				answered, err = s.conclude(c.out, &a, &o, err)
				return err
			}
			answered, err = cmd.change(s, c.out, a)
			return err
		})
	}
	c.put(answered, err)
}

// put keeps an answer to be sent, or that of an error.
func (c *session) put(answered []byte, err error) {
	if err != nil {
		answered = c.server.fail(c.out, err)
	}
	c.out = answered
}

var (
	commands []command           // all of them
	byName   map[string]*command // by name in capitals
)

// init builds the table. It cannot be an initializer: some commands read the table.
func init() {
	commands = []command{
		{name: "WEIR.POLICIES", usage: "WEIR.POLICIES", reply: listPolicies},
		{name: "WEIR.CHECK", usage: "WEIR.CHECK policy dimension=value … [n] [ID id]", least: 1, most: maxArgs, syntax: syntax{numbers: 1, options: []string{"ID"}}, op: weir.OpAttempt},
		{name: "WEIR.PEEK", usage: "WEIR.PEEK policy dimension=value … [n]", least: 1, most: maxArgs, syntax: syntax{numbers: 1}, op: weir.OpPeek},
		{name: "WEIR.COUNT", usage: "WEIR.COUNT policy dimension=value … last_ms [LIMIT name]", least: 1, most: maxArgs, syntax: syntax{needs: countSpan, numbers: 1, options: []string{"LIMIT"}}, change: count, op: engine.Count},
		{name: "WEIR.RECORD", usage: "WEIR.RECORD policy dimension=value … [n] [ID id]", least: 1, most: maxArgs, syntax: syntax{numbers: 1, options: []string{"ID"}}, op: weir.OpRecord},
		{name: "WEIR.REFUND", usage: "WEIR.REFUND policy dimension=value … at_us [n] [ID id]", least: 2, most: maxArgs, syntax: syntax{needs: grantInstant, numbers: 2, options: []string{"ID"}}, change: refund, op: weir.OpRefund},
		{name: "WEIR.RESERVE", usage: "WEIR.RESERVE policy dimension=value … [n] [TTL milliseconds] [ID id]", least: 1, most: maxArgs, syntax: syntax{numbers: 1, options: []string{"ID", "TTL"}}, op: weir.OpAttempt},
		{name: "WEIR.SETTLE", usage: "WEIR.SETTLE reservation [actual]", least: 1, most: 2, syntax: syntax{token: true, settles: reserve.All}, change: settle},
		{name: "WEIR.RELEASE", usage: "WEIR.RELEASE reservation", least: 1, most: 1, syntax: syntax{token: true}, change: settle},
		{name: "WEIR.EXTEND", usage: "WEIR.EXTEND reservation", least: 1, most: 1, syntax: syntax{token: true}, change: extend},
		{name: "WEIR.RESET", usage: "WEIR.RESET policy dimension=value …", least: 1, most: maxArgs, change: reset, op: engine.Reset, needs: mayReset},

		{name: "PING", usage: "PING [message]", most: 1, reply: ping},
		{name: "ECHO", usage: "ECHO message", least: 1, most: 1, reply: ping},
		{name: "HELLO", usage: "HELLO [2|3 [AUTH default TOKEN] [SETNAME name]]", most: 6, open: true, reply: hello},
		{name: "AUTH", usage: "AUTH [default] TOKEN", least: 1, most: 2, open: true, reply: auth},
		{name: "CLIENT", usage: "CLIENT SETNAME name", least: 1, most: maxArgs, reply: client},
		{name: "SELECT", usage: "SELECT 0", least: 1, most: 1, reply: selectDatabase},
		{name: "INFO", usage: "INFO [section …]", most: maxArgs, reply: info},
		{name: "CONFIG", usage: "CONFIG GET name", least: 1, most: maxArgs, reply: configCommand},
		{name: "RESET", usage: "RESET", open: true, reply: resetSession},
		{name: "QUIT", usage: "QUIT", most: maxArgs, open: true, reply: quit},
	}
	byName = make(map[string]*command, len(commands))
	for i := range commands {
		byName[commands[i].name] = &commands[i]
	}
}

// unknownCommand returns the error for an unknown command. Clients match its first two
// words.
func unknownCommand(name string) string {
	var ours []string
	for _, c := range commands {
		if strings.Contains(c.name, ".") {
			ours = append(ours, c.name)
		}
	}
	return "unknown command " + answer.Shown(name) + "; Weir makes decisions and stores no data. Its commands are " + strings.Join(ours, ", ")
}

// listPolicies answers WEIR.POLICIES: an array for each policy, of its name and its
// dimensions.
func listPolicies(c *session, _ []string) {
	policies := c.server.config.Policies().Rules
	c.out = appendArray(c.out, len(policies))
	for _, p := range policies {
		dims := p.Dimensions()
		c.out = appendBulk(appendArray(c.out, 1+len(dims)), p.Name)
		for _, dim := range dims {
			c.out = appendBulk(c.out, dim)
		}
	}
}
