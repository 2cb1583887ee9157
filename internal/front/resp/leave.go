package resp

import (
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// Redis's protocol has no message for a closing connection, unlike HTTP. A client whose
// connection ends while it waits for an answer cannot detect whether its command was
// executed. So a draining server answers one more command, and closes the connection
// together with the answer. A pool that checks a connection before use then loses no
// command.

// quiet is the time that held answers wait for more commands of the same pipeline. After
// it they are sent, and the connection is closed with them.
const quiet = 10 * time.Millisecond

// maxHeld bounds the held answers, in bytes.
const maxHeld = 64 << 10

// holdAnswers reports whether the answers must wait. They are sent at once while a
// command is incomplete, and after commands without a decision, such as HELLO: the
// client's command is still to come.
func (c *conn) holdAnswers(used int) bool {
	if !c.server.isDraining() || !c.session.decided || used < len(c.in) || len(c.session.out) > maxHeld {
		return false
	}
	now := time.Now()
	if c.held.IsZero() {
		c.held = now
	}
	return now.Sub(c.held) < quiet
}

// armDrain sets the deadline of a read while the server drains. The lock has it wait for
// Shutdown: the later deadline from there would keep held answers waiting.
func (c *conn) armDrain() {
	by := c.server.leaveBy
	if last := c.held.Add(quiet); !c.held.IsZero() && last.Before(by) {
		by = last
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.nc.SetReadDeadline(by)
}

// leave sends the held answers and closes the connection. It first answers commands that
// arrived and that a busy server has not read yet. Neither readiness nor linger can
// replace this: Redis clients probe neither. Of busy clients that check a connection
// before use, 3 % lost a command without Cork and Unread, and 1 % with them. Over a unix
// socket the client's next write fails at once.
func (c *conn) leave() {
	listen.CloseRead(c.nc)
	c.nc.SetReadDeadline(time.Now().Add(quiet))
	for listen.Unread(c.nc) && c.take() {
		used, err := c.session.answer(c.text())
		if c.drop(used); err != nil || c.session.ended {
			break
		}
	}
	listen.Cork(c.nc)
	if c.write() {
		c.closeWrite()
	}
}
