// Package replay decides traces in virtual time. Each line of a trace has its own
// instant, and its answer is the one that the live limiter would have given at that
// instant (R1).
//
// # Trade-off
//
// A day of traffic replays in seconds, and a trace always has the same answers, byte
// for byte. In return the order is that of the lines: each is decided after the one
// before, and an instant earlier than the history counts as a clock that was set back
// (R2). To measure contention or latency, put load on `weir serve` instead.
//
// # Lines
//
// A trace is JSON Lines. Each line is one object:
//
//	{"at_us":1000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}
//
//	at_us          the instant, microseconds since 1970, 0 … 2^53-1; required
//	policy         the name of a policy; required
//	key            dimension → value: the policy's dimensions, and the value that chooses its plan; none by default
//	n              units, 0 … 2^51-1; default 1
//	op             check (the default), peek, record, refund, reset, count, settle, extend or block
//	limit          of count: the name of the limit; of reset and block: one limit, in place of those that count by every dimension
//	last_us        of count: the span, 1 … the limit's window
//	granted_at_us  of refund: the instant of the grant, at_us of its answer
//	id             of check, record and refund: an idempotency key of 1 … 128 bytes; of settle and extend: that of the reservation
//	ttl_us         of check with an id: the life of the reservation that it opens
//	for_us         of block: its time, 0 ends blocks; required
//	max_wait_us    of check: the longest wait for its instant (R18), 0 … 400 days
//
// The reader is strict, because a misread trace gives wrong advice. Numbers are whole
// (1e3 and 1.5 are errors). A repeated or unknown field, null, and text after the
// object are errors. The ranges of known fields that an op does not use are checked.
// Blank lines are skipped, lines end with LF or CR LF, and a line has at most 64 KiB.
//
// Strings are UTF-8. An escape is the UTF-8 of its character. Half a surrogate pair and
// bytes that are not UTF-8 are errors. So two keys that differ in the trace never share a
// history.
//
// # Answers
//
// Each line that is not blank has one line of answer, in order:
//
//	{"at_us":1000000,"allowed":true,"granted":1,"remaining":9,"retry_after_us":3000000,"reset_after_us":60000000,"limit":""}
//
// at_us is the instant of the decision. retry_after_us is -1 for never (R8). With max_wait_us
// the answer has start_after_us before limit, also for 0: the wait from at_us until the use
// begins, of a known id from now. The answer to a count ends with "count", that to a refund or a
// settle with "refunded", and that to an extend with "added". "no_reservation":true is the
// answer to a settle or an extend without an open reservation. The other fields of these, and
// those of a reset and a block, are the answer to a peek of 0 units right after it. They are 0
// after a reset or a block of one limit, if the key lacks other dimensions of the policy.
//
// Members for the rest of the policy file follow at the end: "plan", "override" with
// why and until, "blocked_until" with the end of a block, "shadow":true with the
// decision that "would" have been made, and "replayed":true for a known id. Such an
// answer is the first one, including at_us.
//
// A bad line changes nothing. Its answer is {"at_us":…,"error":"…"}, without at_us if
// that cannot be read, and the replay goes on.
//
// # Recorded traces
//
// A trace of weir serve --record begins with an [accesslog.TraceHeader], which has no answer:
//
//	{"trace":1,"sample":10,"keys":"hashed","dropped":0}
//
//	trace    the version of the format
//	sample   one of so many keys is recorded, with all of its calls
//	keys     hashed or plain
//	dropped  calls of recorded keys that are missing since the header before
//
// # Access logs
//
// A [LogRunner] decides the requests that package accesslog reads, each as one attempt. The
// keys come from fields of the log ([LogKey]). The result is a [LogSummary] without answers.
package replay
