'use strict'

const { inputError } = require('./errors')
const { MAX_UNITS, checkNumber } = require('./input')

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')

// A Reservation is an attempt that is settled once with the units really used. docs/reservations.md
// has its rules. A settlement that is not answered may be repeated with the same number.
class Reservation {
  // opened returns the reservation of a decision.
  static opened(weir, decision) {
    const r = new Reservation(weir, decision.reservation || undefined)
    r.decision = decision
    r.allowed = decision.allowed
    r.units = decision.granted
    r.renew(decision)
    return r
  }

  // named returns a reservation whose units are not known here.
  static named(weir, id) {
    const r = new Reservation(weir, id)
    r.allowed = true
    return r
  }

  constructor(weir, id) {
    this.weir = weir
    this.id = id // text that names it in any process; undefined without a grant of weir
    this.decision = undefined
    this.allowed = false
    this.units = undefined // that are reserved
    this.expiresAt = undefined // a Date
    this.heldUntil = undefined // a Date, with a concurrency limit
    this.ended = false
  }

  // settle corrects the charge to the units that were used, and ends holds.
  async settle(actual) {
    const problem = checkNumber('actual', actual ?? NaN, 0, MAX_UNITS)
    if (problem) throw problem
    return this.end('settle', actual)
  }

  // done ends holds and keeps the charge.
  done() {
    return this.end('settle', undefined)
  }

  // cancel gives everything back.
  cancel() {
    return this.end('release', undefined)
  }

  // extend renews the reservation and its hold from now on.
  extend() {
    return this.further(undefined, undefined)
  }

  // add takes n more units, all or none, and renews the reservation. After a denial it stays as it
  // is.
  async add(n) {
    const problem = checkNumber('n', n ?? NaN, 1, MAX_UNITS)
    if (problem) throw problem
    if (this.units === undefined) await this.extend() // add names the units before, so that a retry is made once
    return this.further(n, this.units)
  }

  // [Symbol.asyncDispose] ends a reservation that is open: `await using job = await
  // limiter.reserve(…)`. One that has expired needs no end.
  async [asyncDispose]() {
    if (!this.allowed || this.ended) return
    try {
      await this.done()
    } catch (err) {
      if (err.kind !== 'expired') throw err
    }
  }

  async end(verb, actual) {
    if (!this.allowed)
      throw inputError(
        'the reservation was denied, so nothing can be settled; look at allowed first',
      )
    if (this.id === undefined) {
      // weir was away, and whenDown allowed it
      this.ended = true
      return { reserved: this.units, actual: actual ?? this.units, refunded: 0, recorded: 0 }
    }
    const answer = await this.weir.call({ verb, reservation: this.id, actual })
    this.ended = true
    return answer
  }

  async further(n, reserved) {
    if (!this.allowed)
      throw inputError(
        'the reservation was denied, so it cannot be extended; look at allowed first',
      )
    let allowed = true // weir was away, and whenDown allowed it
    let units = this.units + (n ?? 0)
    let retryAfterMs = 0
    if (this.id !== undefined) {
      const d = await this.weir.call({ verb: 'extend', reservation: this.id, n, reserved })
      ;({ allowed, retryAfterMs } = d)
      units = d.units
      if (allowed) this.renew(d)
    }
    if (allowed) this.units = units
    return { allowed, units: this.units, retryAfterMs }
  }

  renew(d) {
    if (d.expiresAt) this.expiresAt = new Date(d.expiresAt / 1000)
    if (d.heldUntil) this.heldUntil = new Date(d.heldUntil / 1000)
  }
}

module.exports = { Reservation }
