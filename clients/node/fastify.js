'use strict'

const { createHash } = require('node:crypto')
const { inputError } = require('./lib/errors')
const { clientOf } = require('./lib/storeclient')

// weirStore returns a store class for @fastify/rate-limit: windows roll, and all processes share
// them.
//
//   fastify.register(rateLimit, { max: 100, timeWindow: '1 minute', store: weirStore({ url: 'redis://127.0.0.1:7073' }) })
//
// The limit stands in the call, so weir runs with --inline-policies. Each route with limits of its
// own counts by itself. A denied request costs nothing. skipOnError decides without a decision of
// weir.
function weirStore(options) {
  const { weir, name = 'fastify' } = clientOf(options, ['name'])

  class WeirStore {
    constructor(params, route = name) {
      checkParams(params)
      this.name = route
    }

    incr(key, done, timeWindow, max) {
      this.decide('take', key, timeWindow, max).then(
        (answer) => done(null, answer),
        (err) => done(err, null),
      )
    }

    read(key, done, timeWindow, max) {
      this.decide('peek', key, timeWindow, max).then(
        (answer) => done(null, answer),
        (err) => done(err, null),
      )
    }

    async decide(verb, key, timeWindow, max) {
      const limiter = weir.limit(`${max} per ${timeWindow}ms per key`, { name: this.name })
      const d = await limiter[verb]({ key })
      if (d.error) throw d.error
      const ms = d.allowed ? d.resetAfterMs : d.retryAfterMs
      const denied = verb === 'take' && !d.allowed
      return {
        current: denied ? max + 1 : max - d.remaining,
        ttl: Number.isFinite(ms) ? ms : timeWindow,
      }
    }

    child(params) {
      const { method = '', url = '' } = params.routeInfo ?? {}
      return new WeirStore(params, routeName(name, `${method} ${url}`))
    }
  }
  return WeirStore
}

// routeName returns the name of a policy for a route. A name has few letters, so a hash tells
// routes apart that have the same ones.
function routeName(name, route) {
  const words = route
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 24)
  const hash = createHash('sha256').update(route).digest('hex').slice(0, 8)
  return `${name}-${words || 'all'}-${hash}`
}

// checkParams rejects options of the plugin that need a count of denials, which cost nothing here.
function checkParams(params) {
  for (const option of ['continueExceeding', 'exponentialBackoff']) {
    if (params?.[option])
      throw inputError(
        `${option} does not go with weirStore, where a denied request costs nothing; leave it out, or use a policy with "denied: counted"`,
      )
  }
  if (params?.ban > -1)
    throw inputError(
      'ban does not go with weirStore; leave it out, or use a limit with "then block 10m" and weir.limit',
    )
}

module.exports = Object.assign(weirStore, { weirStore, default: weirStore })
