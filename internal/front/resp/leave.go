package resp

import (
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// Redis's protocol has no word by which a server asks a client to leave, as HTTP has.
// A client that finds its connection closed where it waits for an answer cannot know
// whether its command was heard. So a server that drains lets every client put the
// command that it is about to put, and closes the connection in the same moment as it
// answers: whoever looks before he asks again, as pools of clients do, loses nothing.

// quiet is how long answers then wait for more commands of the same pipeline, before
// they are taken for the last and the end of the connection goes with them.
const quiet = 10 * time.Millisecond

// mostHeld is how many bytes of answers wait.
const mostHeld = 64 << 10

// holds reports whether the answers are to wait. They do not where the client is not
// through with a command, nor after those that only greet: what it came for is still to
// be asked.
func (c *conn) holds(used int) bool {
	if !c.server.isDraining() || !c.session.decided || used < len(c.in) || len(c.session.out) > mostHeld {
		return false
	}
	now := time.Now()
	if c.held.IsZero() {
		c.held = now
	}
	return now.Sub(c.held) < quiet
}

// hurry sets the deadline of a read while the server drains.
func (c *conn) hurry() {
	by := c.server.leaveBy
	if last := c.held.Add(quiet); !c.held.IsZero() && last.Before(by) {
		by = last
	}
	c.nc.SetReadDeadline(by)
}

// leave ends the connection with the answers that wait, and those to commands that have
// come and that a server short of time has not seen. Over a unix socket it can also keep
// more from coming, so that their client is told at once.
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
		c.goodbye()
	}
}
