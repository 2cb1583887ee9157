// Package engine is the contract between limiters and stores, as database/sql/driver is
// between database/sql and databases. Programs that apply limits use package weir; only an
// engine, a wrapper of engines or a front end for many policies needs this package.
//
// A policy is compiled once to [Compiled] rules. A [Call] names the rules, a key and an
// operation, and gets a [Result] or an error. [Engine.Do] decides calls. Comments cite the
// rules of docs/semantics.md, such as R7.
//
// examples/engine is an engine in one page. Package weirtest checks any engine against the
// specification.
package engine

import (
	"context"
	"math"
	"time"
)

// Engine stores histories and decides calls. It is safe for concurrent use.
type Engine interface {
	// Do decides calls in their order and sets Result or Err of each. It keeps these
	// promises, which weirtest.Run checks by their rule numbers:
	//
	//   - Each call is one atomic step at one instant, for all limits of its rules (R1, R7).
	//     Other callers may decide between two calls. Several calls for one history see each
	//     other's units. An error of one call does not stop the others.
	//   - It skips calls with an Err, and clears the Result and the States of all others
	//     first. A call that fails has the zero Result and cleared States.
	//   - Calls without an instant share one reading of the engine's clock, as far as R1 and R2
	//     allow: a decision has a later instant if another caller has changed its history.
	//   - A denial, a peek, a probe and a count change nothing (R4), except for a block.
	//   - A history belongs to the limit's policy (Limit.Policy), the limit's name and kind, and
	//     the names and values of the dimensions that it counts by, in any order. So rules with
	//     other numbers find it. A reset forgets the histories of all kinds (R12).
	//   - A history is kept while a unit of it counts or its minimum interval is not over. An
	//     engine that has no room for another one fails the call with ErrFull (R13).
	//   - Different keys never share a history (R14).
	//   - An error means that no decision was possible and nothing changed, unless it wraps
	//     ErrOutcomeUnknown. A denial is not an error (R15).
	//   - A call with an ID is charged once. Repeated under the same policy, key and ID within
	//     Compiled.IdempotencyTTL, or for an attempt with a TTL while its reservation is
	//     remembered, it gets the first result with Replayed, and nothing changes. With other
	//     units, another Op or another From, or of two attempts with a TTL in one alone, it gets
	//     an InputError.
	//   - A granted attempt with a TTL opens a reservation of its ID in the same step (R19). The
	//     reservation is settled once (R19), and it is remembered until the end of its life, and
	//     for at least a minute after its grant and its settlement (R19).
	//   - A denied attempt or probe begins the block of its Limit in the same step, and a running
	//     block denies attempts, peeks and probes (R20).
	//   - It returns soon after ctx ends, with a decision or the context's error; if the call may
	//     be recorded, that error wraps ErrOutcomeUnknown too. An engine that never waits may
	//     ignore ctx.
	//   - It rejects a call that it does not support, such as one under an unsupported kind of
	//     limit, with an InputError. weirtest.Claims describes these calls to the kit.
	//   - It keeps no part of calls after it has returned: not the key, the States or the ID.
	Do(ctx context.Context, calls []Call)
}

// Op is the operation of a [Call].
type Op uint8

const (
	// Attempt decides about N units and records the granted ones (R6). An attempt of 0 units
	// is a peek.
	Attempt Op = iota
	// Peek gets the result that an attempt of N units would have, and changes nothing (R4).
	Peek
	// Record adds N units without a decision (R10). A record of 0 units is a peek.
	Record
	// Refund takes back up to N units of the entry granted at From, or of the oldest entries,
	// in every limit, never below zero (R10). Its Result has the instant of the refund (R1), and
	// as Granted the most units that it took in one limit.
	Refund
	// Count sets Result.Granted to the units recorded in the limit with index Limit in
	// (now - From, now], where From is microseconds, 1 … Window. For KindFixed and
	// KindFixedFromFirst it counts all units of the open window, for every From, and a
	// KindBucket is never counted (R11).
	Count
	// Reset forgets the histories of the key in every limit of the rules, of all kinds (R10,
	// R12). Its Result is the zero Result. [Compiled.Resets] makes the rules of a reset, which
	// may lack limits and dimensions of their policy.
	Reset
	// Settle settles the reservation ID once, with N units that were really used, or with
	// AllUnits (R19). In one step it refunds unused units at the instant of the newest grant, or
	// records further ones now, and ends the hold. Its Result has as Granted the most units that
	// it took back in one limit that is no concurrency limit, and as At the instant. Repeated
	// with the same number it gets the first result with Replayed.
	//
	// Its errors are ErrExpired for a reservation that is unknown or whose life is over, and
	// ErrSettled after a settlement with another number. Both change nothing.
	Settle
	// Extend renews the life and the hold of the reservation ID, and takes N more units of all
	// limits that have no fixed cost and are no concurrency limits: all or none (R19). With units
	// it decides as an attempt; a denial changes nothing. Its errors are those of Settle, and
	// ErrExpired too if the hold has ended.
	//
	// With units and a From, the number of units that the reservation had before, a repeated
	// extension is made once: the repetition has Replayed. Unknown is no such number.
	Extend
	// Block blocks the key in every limit of the rules until From microseconds from now, or until
	// the end of a running block if that is later (R20). From is 1 … 400 days, or 0, which ends
	// running blocks. It charges nothing. [Compiled.Resets] makes its rules.
	Block
	// Probe is a peek of N units that begins a block if it is denied (R20). It serves policies
	// whose units are reported afterwards, as Record.
	Probe
)

// AllUnits, as the N of a Settle, stands for all granted units of the reservation. Then a hold must
// last: if it has ended, the call is ErrExpired and changes nothing (R19).
const AllUnits int64 = -1

// Unknown, as the From of an Extend, is an unknown number of units.
const Unknown int64 = -1

// Oldest, as the From of a refund, selects the oldest entries that count: in each limit its
// own, and as many as the units need. It serves callers that cannot name the unused grant.
// The entries that remain are newer, so they count for longer than the unused one would have.
const Oldest int64 = -1

// Call is one operation on the histories of a key, with its outcome. An engine gets valid
// calls only: the key fits the rules, numbers are in their ranges, and States is nil or as
// long as Rules.Limits.
type Call struct {
	Rules *Compiled // the policy, or the joined rules of calls that are decided together
	Key   Key
	Op    Op
	N     int64 // units, 0 … MaxUnits; for a Settle also AllUnits
	At    int64 // the instant in microseconds since 1970, 0 … MaxInstant, if Given (R1)
	Given bool  // decide at the instant At; otherwise by the engine's clock

	// From is, for a Refund, the instant of the grant, as At, or Oldest; for a Count or a Block the
	// span in microseconds; for an Extend the units that the caller knows, or Unknown.
	From int64

	Limit int // for a Count the index of the limit in Rules.Limits

	// ID is the idempotency key of an Attempt, a Record or a Refund, or the reservation of a Settle
	// or an Extend: 1 to 128 bytes. "" is none.
	ID string

	// TTL is the life of the reservation that an Attempt of some units with an ID opens, in
	// microseconds, 1 … 400 days. 0 opens none.
	TTL int64

	// MaxWait, for an Attempt of some units, is the longest time for which the caller may wait, in
	// microseconds, 0 … 400 days (R18). An attempt that does not fit now is then recorded at the
	// first instant at which it fits, if that is within MaxWait of now: Result.StartAfter. It is 0
	// in mode CountDenied, under a concurrency limit, and in joined rules.
	MaxWait int64

	Outage Outage // the answer while the store is away, for package fallback (R15)

	// States is nil, or filled with the state of every limit after an Attempt, a Peek, a Probe or a
	// Record. Other operations leave it clear.
	States []State

	// Reservation is nil, or set to the reservation as it is after an Attempt with a TTL, a Settle
	// or an Extend. It is cleared if there is none, and after an error.
	Reservation *Reservation

	// Histories is nil, or set after a Peek to the histories that it has read, one for each limit
	// of the rules, in their order. The caller may change them. They are nil after an error, and if
	// the engine does not show histories.
	Histories *[]History

	Result Result
	Err    error
}

// Reservation is the record of granted units that are settled once (R19). Instants are
// microseconds since 1970, by the engine's clock.
type Reservation struct {
	Units     int64 // granted units, those of extensions included; 0 = no reservation
	ExpiresAt int64 // end of its life
	HeldUntil int64 // end of its hold, by the shortest concurrency limit; 0 = it has none any more
	Settled   bool
	Actual    int64 // if Settled, the units of the settlement
}

// Fail sets the error of the call and clears its result, its states and its histories.
func (c *Call) Fail(err error) {
	c.Result, c.Err = Result{}, err
	clear(c.States)
	if c.Reservation != nil {
		*c.Reservation = Reservation{}
	}
	if c.Histories != nil {
		*c.Histories = nil
	}
}

// Outage selects the answer to a call that the store cannot decide (R15). Engines without
// package fallback ignore it: they return the error. Calls together have the strictest of
// theirs.
type Outage uint8

const (
	// OutageDefault leaves the choice to the engine.
	OutageDefault Outage = iota
	// OutageDeny returns the store's error: no decision, nothing allowed.
	OutageDeny
	// OutageAllow allows everything that an empty store would allow, and records nothing.
	OutageAllow
	// OutageShare decides by a share of every limit in the memory of the process.
	OutageShare
	// OutageShareOrStricter is OutageShare, or OutageDefault if that is stricter. [Together] sets
	// it for calls of both.
	OutageShareOrStricter
)

// String returns the last word of the constant's name, such as "Deny".
func (o Outage) String() string {
	return named("Outage", uint8(o), "Default", "Deny", "Allow", "Share", "ShareOrStricter")
}

// Never is the RetryAfter of an attempt that can never fit: it needs more units than some
// limit's capacity (R8). It is the largest time.Duration, 292 years. So it compares as the
// longest wait, and a sleep on it is no busy loop. A sum of it and more overflows: test for
// Never before you add to a wait. JSON, RESP and traces write it as -1, and header fields omit it.
const Never time.Duration = math.MaxInt64

// Result is the outcome of a [Call]. Durations are whole microseconds or [Never], and waits are
// counted from At. The zero Result allows nothing. Its fields are those of weir.Decision.
type Result struct {
	Allowed bool // the caller may proceed (in mode Partial with Granted units)

	// Granted is the number of units that were recorded and allowed; for a peek, that would be; for
	// a Refund or a Settle, that were taken back; for a Count, that count.
	Granted int64

	// Remaining is the least room over all limits after this attempt. Below 0 it is after a
	// Record, under a lowered Max, or because of units ahead (R18).
	Remaining int64

	// StartAfter is the wait from At, and of a replay from now, until the use of the granted
	// units may begin (R18). 0 is now.
	StartAfter time.Duration

	// RetryAfter is the least wait until the same attempt would be granted in full: 0 is now, and
	// Never not at any time (R8).
	RetryAfter time.Duration

	ResetAfter time.Duration // time until no unit counts and no block runs
	Blocked    time.Duration // rest of the longest block that runs after the decision; 0 = none runs
	At         time.Time     // the instant of the decision
	Limit      string        // name of the limit that denied or cut the attempt (R8), "" if none did
	Degraded   bool          // the store did not answer; a fallback decided
	Replayed   bool          // the first result of this ID is returned again; nothing was charged
	Cached     bool          // a denial of a shared store, repeated from this process's memory (R8)

	// The numbers of Limit (Compiled.Explain). An engine sets them only in a replayed result, to
	// those of the first one; package weir sets all others.
	Kind   Kind
	Max    int64
	Window time.Duration
	Used   int64
}

// State is the state of one limit of a policy right after a decision. Its times are whole
// microseconds or [Never], counted from Result.At. [Limit.Describe] sets the fields up to
// MinInterval.
type State struct {
	Name        string        // the limit's name; "" marks a state that is not known
	Kind        Kind          // the limit's kind
	Max         int64         // units per window, or held units of KindConcurrency
	Burst       int64         // capacity of a KindBucket; 0 for other kinds
	Window      time.Duration // length of the window; 0 for KindConcurrency
	MaxHold     time.Duration // longest time of a hold of KindConcurrency; 0 for other kinds
	MinInterval time.Duration // least time between two grants

	// Used is the number of units that count now, that are held, or that are missing from a bucket
	// (R6), with those of appointments.
	Used int64

	// Remaining is Max, or Burst, less Used, exact. Below 0 it is after a Record, in mode
	// CountDenied, or under a lowered Max.
	Remaining int64

	RetryAfter time.Duration // least wait until this limit alone would grant in full; Never

	// NextAfter is the time until the oldest counted unit leaves, or the next one flows in, and at
	// least Blocked. It is 0 if none counts.
	NextAfter time.Duration

	MinIntervalAfter time.Duration // time until the minimum interval ends; 0 = it has ended
	ResetAfter       time.Duration // time until no unit counts and no block runs
	Blocked          time.Duration // rest of the limit's block; 0 = none runs
	Ahead            int64         // units of appointments, whose use has not begun (R18)
	LastAhead        time.Duration // time until the last appointment; 0 = none is ahead
}
