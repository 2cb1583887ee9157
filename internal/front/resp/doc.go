// Package resp answers decisions in the protocol of Redis, so that any Redis
// client is a client of Weir: RESP2, and RESP3 for who asks with HELLO 3.
//
//	CL.THROTTLE key max_burst count period [quantity]   as redis-cell answers it
//	WEIR.CHECK   policy dimension=value … [n] [ID id]   one decision
//	WEIR.PEEK    policy dimension=value … [n]           the same, changing nothing
//	WEIR.RECORD  policy dimension=value … [n] [ID id]   adds units without asking
//	WEIR.REFUND  policy dimension=value … at_us [n] [ID id]  takes back units of a grant
//	WEIR.RESERVE policy dimension=value … [n] [TTL ms] [ID id]  one, to be settled
//	WEIR.SETTLE  reservation actual                     settles it with what was used
//	WEIR.RELEASE reservation                            settles it with 0
//	WEIR.RESET   policy dimension=value …               forgets a key's histories
//
// and what clients say to a server they have connected to: HELLO, AUTH, PING,
// CLIENT, INFO and so on. docs/resp.md tells users of it.
//
// A denial is an answer, an error is a RESP error (R15): "ERR …" for bad input,
// where nothing was charged (R14), "UNAVAILABLE …" where no decision could be made.
//
// Commands that lie in the read buffer together are answered together, in one
// write. Where decisions wait for a store they are asked for at the same time, but
// commands about one key one after the other, and answered in the order in which
// they came.
//
// The bargain: every connection is held to a size, a number of arguments and a
// time, and there is a password for all, but there are no users.
package resp
