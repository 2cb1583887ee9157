'use strict'

const { randomBytes } = require('node:crypto')
const { EventEmitter } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { readAddress } = require('./address')
const { Breaker } = require('./breaker')
const { WeirError, unavailable, inputError } = require('./errors')
const { HttpFront } = require('./httpfront')
const { checkNumber, checkText, readOptions, shown } = require('./input')
const { Limiter } = require('./limiter')
const { Reservation } = require('./reservation')
const { RespFront } = require('./respfront')

const defaults = {
  timeout: 250,
  totalTimeout: 1000,
  retries: 2,
  whenDown: 'deny',
  maxPending: 10_000,
  breaker: 5,
}

const optionNames = [...Object.keys(defaults), 'url', 'token', 'tls']

// A Weir is a connection to weir serve. index.d.ts describes the options. It emits `down` with the
// error of the first call that weir did not decide, and `up` when it decides again. Without a
// listener for `down` both are lines on standard error.
class Weir extends EventEmitter {
  constructor(options) {
    super()
    const given = typeof options === 'string' ? { url: options } : (options ?? {})
    for (const name in given) {
      if (!optionNames.includes(name))
        throw inputError(`no option ${JSON.stringify(name)}; there are ${optionNames.join(', ')}`)
    }
    const o = { ...defaults, url: process.env.WEIR_URL }
    for (const name in given) if (given[name] !== undefined) o[name] = given[name]
    const address = readAddress(o.url)
    o.token ??= address.token
    this.options = checkOptions(o, address)
    const settings = { token: o.token, tls: o.tls, maxSockets: 64 }
    this.front =
      address.front === 'resp' ? new RespFront(address, settings) : new HttpFront(address, settings)
    this.breaker = new Breaker(o.breaker)
    this.pending = 0 // calls that are not answered
    this.isDown = false
    this.lastID = 0
    this.idPrefix = randomBytes(9).toString('base64url') + '-'
    this.closed = false
  }

  // limit returns a limiter with the limit in its text, such as '10 per minute per user, 3s apart',
  // or with several. The server must run with --inline-policies. Without a name weir makes one of
  // the text, so another text begins with empty histories (R12).
  limit(text, options = {}) {
    const { name = '' } = readOptions(options, 'name')
    if (typeof name !== 'string')
      throw inputError(
        'the name of limits is text, such as login; leave it out for one made of them',
      )
    const limits = [].concat(text)
    for (const line of limits) {
      if (typeof line !== 'string' || line.trim() === '')
        throw inputError('a limit is text, such as "10 per minute per user"')
    }
    const problem = checkText('the name', name) ?? checkText('a limit', limits.join())
    if (problem) throw problem
    if (limits.length === 0)
      throw inputError('a policy has at least one limit, such as "10 per minute per user"')
    return new Limiter(this, name, limits)
  }

  // policy returns a limiter with a policy of the server's file.
  policy(name) {
    if (typeof name !== 'string' || name === '')
      throw inputError('the name of a policy is text, as in the policy file of weir serve')
    const problem = checkText('the name', name)
    if (problem) throw problem
    return new Limiter(this, name, undefined)
  }

  // reservation returns the reservation with an id, such as one that another process has opened.
  reservation(id) {
    if (typeof id !== 'string' || id === '')
      throw inputError('a reservation is named by its id, the text that reserve returned')
    const problem = checkText('the id', id)
    if (problem) throw problem
    return Reservation.named(this, id)
  }

  // close ends the connections. Calls without an answer fail.
  close() {
    this.closed = true
    this.front.close()
  }

  // newID returns an idempotency key that no other call has. It is unique, not secret.
  newID() {
    return this.idPrefix + (++this.lastID).toString(36)
  }

  // call makes a call, again after a failure, and returns its answer.
  async call(call) {
    if (this.closed) throw inputError('the client is closed; make calls before close')
    const o = this.options
    if (this.pending >= o.maxPending) {
      throw this.undecided(unavailable(`${o.maxPending} calls wait for weir; that is maxPending`))
    }
    if (!this.breaker.admits()) {
      throw this.undecided(
        unavailable(`weir is away: ${this.breaker.cause.message}`, this.breaker.cause),
      )
    }
    this.pending++
    try {
      const deadline = performance.now() + o.totalTimeout
      for (let failed = 0; ;) {
        try {
          const answer = await this.attempt(call, Math.min(o.timeout, deadline - performance.now()))
          this.decided()
          return answer
        } catch (err) {
          if (err.kind !== 'unavailable') {
            if (isAnswer(err)) this.decided()
            throw err
          }
          const pause = failed === 0 ? 0 : (25 + Math.random() * 50) * failed
          const last = ++failed > o.retries || this.closed || this.breaker.isOpen()
          if (last || performance.now() + pause >= deadline) {
            // A call counts once: a lost connection with many calls is one event.
            if (err.answered)
              this.breaker.succeed() // weir is there, but its store is not
            else this.breaker.fail(err)
            throw this.undecided(err)
          }
          if (pause > 0) await sleep(pause)
          if (this.closed) throw err
        }
      }
    } finally {
      this.pending--
    }
  }

  // attempt sends a call once, and waits at most ms for its answer.
  attempt(call, ms) {
    return new Promise((resolve, reject) => {
      let entry
      const timer = setTimeout(() => {
        reject(unavailable(`no answer of weir within ${Math.round(ms)} ms`))
        this.front.abandon(entry)
      }, ms)
      const done = (err, answer) => {
        clearTimeout(timer)
        if (err) reject(err)
        else resolve(answer)
      }
      try {
        entry = this.front.send(call, done)
      } catch (err) {
        done(this.unsent(err))
      }
    })
  }

  // unsent returns the error of a call that Node refuses to send, as with a broken certificate.
  unsent(err) {
    const unsent = inputError(
      `no call can be sent to ${this.front.address.shown}: ${err.message}; are url, token and tls right?`,
    )
    unsent.cause = err
    unsent.unsent = true
    return unsent
  }

  // decided notes an answer of weir.
  decided() {
    this.breaker.succeed()
    if (!this.isDown) return
    this.isDown = false
    if (this.listenerCount('down') === 0) console.error('weir: decides again')
    this.emit('up')
  }

  // undecided notes a call without a decision, and returns its error.
  undecided(err) {
    if (this.isDown || this.closed) return err
    this.isDown = true
    if (this.listenerCount('down') === 0) {
      console.error(
        `weir: ${err.message}; until it is back attempts are ${this.options.whenDown === 'allow' ? 'allowed' : 'denied'}`,
      )
    }
    this.emit('down', err)
    return err
  }
}

// isAnswer reports whether an error is the answer of weir, which then is not away.
const isAnswer = (err) => err instanceof WeirError && err.kind !== 'protocol' && !err.unsent

// checkOptions throws for options that are none.
function checkOptions(o, address) {
  const problem =
    checkNumber('timeout', o.timeout, 1, 600_000) ??
    checkNumber('totalTimeout', o.totalTimeout, 1, 600_000) ??
    checkNumber('retries', o.retries, 0, 10) ??
    checkNumber('maxPending', o.maxPending, 1, 1_000_000) ??
    checkNumber('breaker', o.breaker, 0, 1_000_000)
  if (problem) throw problem
  if (o.whenDown !== 'deny' && o.whenDown !== 'allow') {
    throw inputError(`whenDown must be "deny" or "allow", not ${shown(o.whenDown)}`)
  }
  if (o.token !== undefined && !(typeof o.token === 'string' && /^[ -~]+$/.test(o.token))) {
    throw inputError(
      'token must be text of printable ASCII without a line end; is it read with its newline?',
    )
  }
  if (o.tls !== undefined && (typeof o.tls !== 'object' || o.tls === null)) {
    throw inputError(`tls has options of TLS, such as { ca }, not ${shown(o.tls)}`)
  }
  if (o.tls !== undefined && !address.tls) {
    throw inputError(
      `tls has no effect with ${address.shown}; write rediss:// or https:// in the url`,
    )
  }
  return o
}

module.exports = { Weir, optionNames }
