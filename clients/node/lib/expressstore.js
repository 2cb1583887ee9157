'use strict'

const { inputError } = require('./errors')
const { nameOf, textOf } = require('./limittext')
const { MAX_MILLIS, MAX_UNITS, checkNumber } = require('./input')
const { clientOf, warnOfSharedName } = require('./storeclient')

// A WeirStore is a store of express-rate-limit: windows roll, and all processes share them.
//
//   rateLimit({ windowMs: 60_000, limit: 100, store: new WeirStore({ url: 'redis://127.0.0.1:7073' }) })
//
// The limit stands in the call, so weir runs with --inline-policies. With { policy, dimension } it
// is a policy of the server's file, which counts by that dimension. A denied request costs nothing.
class WeirStore {
  constructor(options) {
    const {
      weir,
      isOwn,
      name,
      policy,
      dimension = 'key',
    } = clientOf(options, ['name', 'policy', 'dimension'])
    this.weir = weir
    this.isOwn = isOwn
    this.name = name
    this.policy = policy
    this.dimension = dimension
    this.localKeys = false
    this.prefix = name ?? policy ?? ''
    this.problem = inputError(
      'WeirStore is not initialized; pass it to rateLimit of express-rate-limit as store',
    )
    this.grants = undefined // by key, where requests are counted back
  }

  // init gets the options of the limiter. express-rate-limit prints errors of init and goes on, so
  // each request gets the error instead.
  init(options) {
    const { limit, windowMs } = options
    const isWhole = Number.isInteger(limit) && limit >= 0
    if (!isWhole) {
      this.problem = inputError(
        `WeirStore needs a whole number as limit, not ${typeof limit === 'number' ? limit : `a ${typeof limit}`}; ` +
          'for limits that depend on the request use rateLimit of weirlimit/express, or plans in the policy file',
      )
      return
    }
    this.problem =
      checkNumber('limit', limit, 0, MAX_UNITS) ?? checkNumber('windowMs', windowMs, 1, MAX_MILLIS)
    if (this.problem) return
    this.limit = limit
    this.windowMs = windowMs
    const text = textOf(limit, windowMs, this.dimension)
    this.name ??= this.policy ?? nameOf(limit, windowMs)
    this.prefix = this.name
    this.limiter =
      this.policy === undefined
        ? this.weir.limit(text, { name: this.name })
        : this.weir.policy(this.policy)
    warnOfSharedName(this, this.weir, this.name)
    if (options.skipFailedRequests || options.skipSuccessfulRequests)
      this.grants = new Grants(windowMs)
  }

  keyOf(key) {
    return { [this.dimension]: key }
  }

  // increment counts a request. It throws without a decision, and passOnStoreError decides then.
  async increment(key) {
    if (this.problem) throw this.problem
    const d = await this.limiter.take(this.keyOf(key))
    if (d.error) throw d.error
    const hits = d.allowed ? Math.max(this.limit - d.remaining, 1) : this.limit + 1
    const info = this.infoOf(d, hits)
    this.grants?.add(key, d, info.resetTime.getTime())
    return info
  }

  // decrement counts a request back that skipFailedRequests or skipSuccessfulRequests leaves out.
  async decrement(key) {
    if (this.problem) throw this.problem
    const at = this.grants?.take(key)
    if (at !== undefined) await this.limiter.refund(this.keyOf(key), at)
  }

  async get(key) {
    if (this.problem) throw this.problem
    const d = await this.limiter.peek(this.keyOf(key))
    if (d.error) throw d.error
    const used = this.limit - d.remaining
    return used > 0 ? this.infoOf(d, used) : undefined
  }

  async resetKey(key) {
    if (this.problem) throw this.problem
    await this.limiter.reset(this.keyOf(key))
  }

  // shutdown closes the client, unless it is one of the program.
  shutdown() {
    if (this.isOwn) this.weir.close()
  }

  infoOf(d, totalHits) {
    const ms = d.allowed ? d.resetAfterMs : d.retryAfterMs
    return {
      totalHits,
      resetTime: new Date(Date.now() + (Number.isFinite(ms) ? ms : this.windowMs)),
    }
  }
}

// Grants remembers when requests of each key were granted. express-rate-limit names only the key
// when it counts one back. The oldest grant is given back: with a newer one, a window could hold
// more requests that stay than the limit.
//
// A denied request cost nothing, but may be counted back as well, as requestWasSuccessful and the
// handler decide. Then nothing must be given back, or each denial would open the limit for a
// request. So the first requests that are counted back after a denial may be that denial.
// express-rate-limit 8.6 and later count none back after its resetTime, so this lasts until slack
// after that.
class Grants {
  constructor(windowMs) {
    this.windowMs = windowMs
    this.byKey = new Map()
    this.sweepAt = Date.now() + windowMs
  }

  // add notes a request, whose resetTime is in milliseconds since 1970.
  add(key, d, resetTime) {
    this.sweep()
    let entry = this.byKey.get(key)
    if (!entry) this.byKey.set(key, (entry = { at: [], denials: 0, until: 0, last: 0 }))
    entry.last = Date.now()
    if (d.allowed) {
      entry.at.push(d.at)
    } else {
      this.forget(entry)
      entry.denials++
      entry.until = Math.max(entry.until, resetTime)
    }
    while (entry.at.length > 0 && entry.at[0] < d.at - this.windowMs * 1000) entry.at.shift()
  }

  // forget drops denials that are not counted back any more.
  forget(entry) {
    const slack = 1000 // milliseconds between its look at the clock and this one
    if (Date.now() > entry.until + slack) entry.denials = 0
  }

  // take returns the instant of the grant that is given back, or undefined.
  take(key) {
    const entry = this.byKey.get(key)
    if (!entry) return undefined
    this.forget(entry)
    if (entry.denials > 0) {
      entry.denials--
      return undefined
    }
    return entry.at.shift()
  }

  // sweep drops keys without a request for a window.
  sweep() {
    const now = Date.now()
    if (now < this.sweepAt) return
    this.sweepAt = now + this.windowMs
    for (const [key, entry] of this.byKey)
      if (entry.last < now - this.windowMs) this.byKey.delete(key)
  }
}

module.exports = { WeirStore }
