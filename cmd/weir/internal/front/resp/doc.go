// Package resp serves decisions in the protocol of Redis, so that any Redis client is a
// client of Weir: RESP2, and RESP3 after HELLO 3.
//
//	WEIR.POLICIES                                       lists the policies
//	WEIR.CHECK   policy dimension=value … [n] [ID id]   attempts n units
//	WEIR.PEEK    policy dimension=value … [n]           the same, without a change
//	WEIR.COUNT   policy dimension=value … last_ms [LIMIT name]  counts the units of a span
//	WEIR.RECORD  policy dimension=value … [n] [ID id]   adds units without a decision
//	WEIR.REFUND  policy dimension=value … at_us [n] [ID id]     refunds units of a grant
//	WEIR.RESERVE policy dimension=value … [n] [TTL ms] [ID id]  attempts an estimate
//	WEIR.SETTLE  reservation [actual]                   settles it with the real units, or all
//	WEIR.RELEASE reservation                            settles it with 0
//	WEIR.EXTEND  reservation                            renews its hold
//	WEIR.RESET   policy dimension=value …               deletes a key's histories
//
// The commands that clients send when they connect work too: HELLO, AUTH, PING, CLIENT,
// INFO and so on. docs/resp.md is the manual.
//
// A denial is an answer, an error is a RESP error (R15): "ERR …" for bad input, of which
// nothing was charged (R14), "UNAVAILABLE …" if no decision could be made.
//
// All commands in the read buffer are answered in one write, in their order. If
// decisions wait for a store, those that follow each other are made in one call.
//
// Trade-off: every connection has bounds of size, arguments and time, and one password,
// but there are no users.
package resp
