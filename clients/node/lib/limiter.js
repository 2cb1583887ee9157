'use strict'

const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')
const { toWire, withoutWeir } = require('./decision')
const {
  checkID,
  checkKey,
  checkMillis,
  checkNames,
  checkNumber,
  checkSignal,
  checkUnits,
  checkWait,
  readOptions,
} = require('./input')
const { Reservation } = require('./reservation')

const noKey = Object.freeze({})
const noOptions = Object.freeze({})

// A Limiter makes the calls of one policy. The key of a call has a value for each dimension, such
// as { user: 'ann' }.
class Limiter {
  constructor(weir, name, limits) {
    this.weir = weir
    this.name = name
    this.limits = limits
  }

  // take attempts n units, by default 1, and charges them if they fit. A repeated call with the
  // same id is charged once.
  async take(key = noKey, options = noOptions) {
    const { n, id } = readOptions(options, 'n', 'id')
    const problem = checkKey(key) ?? checkUnits(n) ?? checkID(id)
    if (problem) throw problem
    const call = this.of('check', key)
    call.n = n
    call.id = this.idFor(id)
    return this.decide(call)
  }

  // peek returns the decision that take would get now, and changes nothing.
  async peek(key = noKey, options = noOptions) {
    const { n } = readOptions(options, 'n')
    const problem = checkKey(key) ?? checkUnits(n)
    if (problem) throw problem
    const call = this.of('peek', key)
    call.n = n
    return this.decide(call)
  }

  // wait takes n units at the first instant at which they fit, in the order of the calls also
  // across processes, and resolves then. If that is later than maxWaitMs, it resolves immediately
  // with a denial. The bound is max-wait of the policy, by default its longest window: without
  // maxWaitMs it is waited for so long, and a longer maxWaitMs is an error of the server. The signal
  // ends the wait and gives the units back.
  async wait(key = noKey, options = noOptions) {
    const known = ['maxWaitMs', 'n', 'id', 'signal']
    const { maxWaitMs = Infinity, n, id, signal } = readOptions(options, ...known)
    const problem =
      checkKey(key) ?? checkUnits(n) ?? checkID(id) ?? checkWait(maxWaitMs) ?? checkSignal(signal)
    if (problem) throw problem
    signal?.throwIfAborted()
    // Only a reservation can be cancelled before its start.
    const call = this.of(signal ? 'reserve' : 'check', key)
    call.n = n
    call.maxWaitMs = toWire(maxWaitMs)
    call.id = signal ? (id ?? randomUUID()) : this.idFor(id)
    const d = await this.decide(call)
    await this.start(d, signal)
    return d
  }

  // start resolves when the use of a grant may begin. If the signal ends that, a reservation is
  // cancelled. The caller gets the reason of the signal, also if weir does not answer then.
  async start(d, signal) {
    if (!d.allowed) return
    try {
      await pause(d.startAfterMs, signal)
    } catch (err) {
      if (d.reservation) await Reservation.opened(this.weir, d).cancel().catch(reportKept)
      throw err
    }
  }

  // record adds n units, by default 1, that were used already, without a decision.
  async record(key = noKey, options = noOptions) {
    const { n, id } = readOptions(options, 'n', 'id')
    const problem = checkKey(key) ?? checkUnits(n) ?? checkID(id)
    if (problem) throw problem
    const call = this.of('record', key)
    call.n = n
    call.id = this.idFor(id)
    return this.weir.call(call)
  }

  // count returns the units that a rolling limit recorded in the last milliseconds. The name of the
  // limit may be left out if the policy has one.
  async count(key, lastMs, options = noOptions) {
    const { limit } = readOptions(options, 'limit')
    const problem =
      checkKey(key) ??
      checkMillis('the span to count', lastMs ?? NaN, 1) ??
      checkNames(limit && [limit])
    if (problem) throw problem
    const call = this.of('count', key)
    call.lastMs = lastMs
    call.counted = limit
    return (await this.weir.call(call)).count
  }

  // refund takes back n units, by default 1, of a grant: its decision, or the `at` of that. It
  // returns how many were taken back: less than n if fewer were granted then, or if some have left
  // the window, and 0 if whenDown has decided, because nothing is known to be charged.
  async refund(key, grant, options = noOptions) {
    const { n, id } = readOptions(options, 'n', 'id')
    const isDecision = typeof grant === 'object' && grant !== null
    const isOwn = isDecision && grant.error !== undefined // whenDown has decided
    const at = isDecision ? grant.startAt || grant.at : grant
    const problem =
      checkKey(key) ??
      (isOwn ? undefined : checkNumber('the instant of the grant', at ?? NaN, 1, 2 ** 53 - 1)) ??
      checkUnits(n) ??
      checkID(id)
    if (problem) throw problem
    if (isOwn) return 0
    const call = this.of('refund', key)
    call.at = at
    call.n = n
    call.id = this.idFor(id)
    return (await this.weir.call(call)).refunded
  }

  // reset forgets the histories of a key, in the limits that count by every dimension or in those
  // named by `limits`. It returns the names of the limits that were reset and kept.
  async reset(key = noKey, options = noOptions) {
    const { limits } = readOptions(options, 'limits')
    const problem = checkKey(key) ?? checkNames(limits)
    if (problem) throw problem
    const call = this.of('reset', key)
    call.only = limits
    return this.weir.call(call)
  }

  // block denies a key for so many milliseconds; 0 ends the block.
  async block(key, ms, options = noOptions) {
    const { limits } = readOptions(options, 'limits')
    const problem =
      checkKey(key) ?? checkMillis('the time of a block', ms ?? NaN) ?? checkNames(limits)
    if (problem) throw problem
    const call = this.of('block', key)
    call.forMs = ms
    call.only = limits
    return this.weir.call(call)
  }

  // reserve attempts an estimate that is settled later with the real use. The reservation holds the
  // decision; one that is not allowed needs no settlement. With maxWaitMs it waits as wait does.
  async reserve(key = noKey, options = noOptions) {
    const known = ['n', 'ttlMs', 'id', 'maxWaitMs', 'signal']
    const { n, ttlMs, id, maxWaitMs, signal } = readOptions(options, ...known)
    const problem =
      checkKey(key) ??
      checkUnits(n, 1) ??
      checkMillis('the life of a reservation', ttlMs, 1) ??
      checkID(id) ??
      checkWait(maxWaitMs) ??
      checkSignal(signal)
    if (problem) throw problem
    signal?.throwIfAborted()
    const call = this.of('reserve', key)
    call.n = n
    call.ttlMs = ttlMs
    call.maxWaitMs = toWire(maxWaitMs)
    call.id = id ?? randomUUID() // whoever can guess an id can settle it
    const d = await this.decide(call)
    await this.start(d, signal)
    return Reservation.opened(this.weir, d)
  }

  // of returns a call of this policy.
  of(verb, key) {
    return {
      verb,
      policy: this.name,
      limits: this.limits,
      key,
      n: undefined,
      id: undefined,
      encoded: undefined, // as it is sent
    }
  }

  // idFor returns the idempotency key of a call: that of the program, or one of its own, so that a
  // retry is charged once. A call that is never retried needs none, which saves memory of weir.
  idFor(id) {
    if (id !== undefined || this.weir.options.retries === 0) return id
    return this.weir.newID()
  }

  // decide makes an attempt. Without an answer whenDown decides.
  async decide(call) {
    try {
      return await this.weir.call(call)
    } catch (err) {
      if (err.kind !== 'unavailable') throw err
      return withoutWeir(this.weir.options.whenDown === 'allow', call.n ?? 1, err)
    }
  }
}

const reportKept = (err) => console.error(`weir: a cancelled wait keeps its units: ${err.message}`)

// pause resolves after a time; the longest timer of Node is 24.8 days.
async function pause(ms, signal) {
  signal?.throwIfAborted()
  for (const longest = 2 ** 31 - 1; ms > 0; ms -= longest) {
    await sleep(Math.min(ms, longest), undefined, { signal })
  }
}

module.exports = { Limiter }
