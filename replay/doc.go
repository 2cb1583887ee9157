// Package replay runs traces against policies in virtual time: every line of a
// trace names its own instant, and the answers are those the live limiter would
// have given at those instants (R1).
//
// # The bargain
//
// A day of traffic replays in seconds, and the same trace always gives the same
// answers, byte for byte. In return the caller says what the time is: lines are
// decided in the order of the input, one after the other, and an instant behind
// the history it meets is treated as a clock that was stepped back (R2). To
// measure contention or latency, put load on `weir serve` instead.
//
// # Lines
//
// A trace is JSON Lines. Each line is one object:
//
//	{"at_us":1000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}
//
//	at_us          the instant, microseconds since 1970, 0 … 2^53-1; required
//	policy         the name of a policy; required
//	key            dimension → value, exactly the policy's dimensions, and what chooses its plan; none when it has none
//	n              units, 0 … 2^53-1; 1 when missing
//	op             check (when missing), peek, record, refund, reset or count
//	limit          of count: the limit to count in
//	last_us        of count: the span, 1 … the limit's window
//	granted_at_us  of refund: the instant of the grant, at_us of its answer
//	id             of check, record and refund: the operation, so that made again it is charged once; 1 … 128 bytes
//
// The reader is strict, because a misread trace gives wrong advice: numbers are
// whole (1e3 and 1.5 are refused), a field given twice, an unknown field, null
// and anything behind the object are errors. Known fields that an op does not
// use are checked for their range and otherwise ignored. Blank lines are
// skipped, CR LF ends a line as LF does, and a line holds at most 64 KiB.
//
// Strings are bytes, as keys are (R14). Escapes stand for the UTF-8 of their
// character; a surrogate without its other half is refused, because it has
// none; bytes that are not UTF-8 are kept as they are. So two keys that differ
// in the trace never share a history.
//
// # Answers
//
// Every line that is not blank gets one line of answer, in order:
//
//	{"at_us":1000000,"allowed":true,"granted":1,"remaining":9,"retry_after_us":3000000,"reset_after_us":60000000,"limit":""}
//
// at_us is the instant of the decision, retry_after_us is -1 for never (R8). An
// answer to a count ends with "count", to a refund with "refunded"; their other
// fields, and those of a reset, are the answer to a peek of 0 units right after.
// What else of a policy file applied follows at the end: "plan", "override" with why
// and until, "blocked_until" with the instant at which a block ends, "shadow":true with
// what "would" have been decided, and "repeated":true where the id was known: such an
// answer is that of the first time, at_us included.
// A bad line changes nothing, is answered {"at_us":…,"error":"…"}, without at_us
// where none can be read, and the replay goes on.
package replay
