'use strict'

// A Decision is the answer to an attempt or a peek. A denial is an answer, no error.
//
//   allowed       whether the attempt was granted; with `batch: partial` also in part
//   granted       units that were granted
//   remaining     units that fit now, the least over all limits; may be below 0
//   retryAfterMs  milliseconds until the same attempt is granted in full; 0 = now, Infinity = never
//   resetAfterMs  milliseconds until no unit counts any more
//   startAfterMs  of a wait: milliseconds from the answer on until the use begins
//   startAt       of a wait: that instant by weir's clock, microseconds since 1970; 0 of a replay
//   limit         the name of the limit that denied; '' if none did
//   at            the instant of the decision by weir's clock, microseconds since 1970; for refund
//   replayed      an operation with this id was made before; nothing was charged again
//   cached        a denial on Redis that weir repeats from memory, for at most 100 ms
//   degraded      weir could not decide: a fallback of weir did, or whenDown of this client
//   error         the reason, if whenDown of this client decided
class Decision {
  constructor() {
    this.allowed = false
    this.granted = 0
    this.remaining = 0
    this.retryAfterMs = 0
    this.resetAfterMs = 0
    this.startAfterMs = 0
    this.startAt = 0
    this.limit = ''
    this.at = 0
    this.replayed = false
    this.cached = false
    this.degraded = false
    this.error = undefined
  }
}

// fromWire returns a wait: −1 on the wire is never.
const fromWire = (ms) => (ms < 0 ? Infinity : ms)

// toWire returns a longest wait for the wire, where −1 is as long as the policy allows.
const toWire = (ms) => (ms === Infinity ? -1 : ms)

// withoutWeir returns the decision in an outage. A denied caller may try again in a second.
function withoutWeir(allow, n, error) {
  const d = new Decision()
  d.allowed = allow
  d.granted = allow ? n : 0
  d.retryAfterMs = allow ? 0 : 1000
  d.degraded = true
  d.error = error
  return d
}

module.exports = { Decision, fromWire, toWire, withoutWeir }
