'use strict'

const { isIP } = require('node:net')
const { ipKeyGenerator } = require('./lib/clientip')
const { WeirError, inputError } = require('./lib/errors')
const { WeirStore } = require('./lib/expressstore')
const { setHeaders } = require('./lib/headers')
const { dimensionsOf, nameOf, numbersOf, textOf } = require('./lib/limittext')
const { clientOf } = require('./lib/storeclient')

const defaults = {
  windowMs: 60_000,
  message: 'Too many requests, please try again later.',
  statusCode: 429,
  legacyHeaders: true,
  standardHeaders: false,
  requestPropertyName: 'rateLimit',
  skipFailedRequests: false,
  skipSuccessfulRequests: false,
  requestWasSuccessful: (request, response) => response.statusCode < 400,
  skip: () => false,
  ipv6Subnet: 56,
  validate: true,
}

// rateLimit returns middleware for Express. Its options have the names, the meaning and the
// defaults of express-rate-limit, but for these:
//
//   weir, or url, token …  a client, or the options of one
//   limit                  a number of requests in windowMs, or the text of a limit, such as
//                          '100 per 15m per ip, 1s apart', or several texts, or a function that
//                          returns one of these
//   policy                 instead of it: the name of a policy of the server's file
//   name                   with limit: of the policy; default: made of the limit
//   keyGenerator           returns text, the value of the only dimension, or an object with all
//                          values; default: the address of the client
//
// Without a decision of weir whenDown of the client decides: 503, or the request passes.
function rateLimit(options) {
  const own = [
    'limit',
    'policy',
    'name',
    'keyGenerator',
    'handler',
    'passOnStoreError',
    ...Object.keys(defaults),
  ]
  const { weir, ...given } = clientOf(options, own)
  const o = { ...defaults, ...given }
  if (o.limit !== undefined && o.policy !== undefined) {
    throw inputError(
      'rateLimit takes limit or policy, not both; the numbers of a policy stand in the file of weir serve',
    )
  }
  if (o.policy === undefined) o.limit ??= 5
  const rules = new Map() // by the text of their limits
  const fixed = typeof o.limit === 'function' ? undefined : ruleOf(o.limit)
  const warn = warnings(o.validate)
  const generate =
    o.keyGenerator ??
    ((request) => {
      checkAddress(request, warn)
      return ipKeyGenerator(request.ip ?? '', o.ipv6Subnet)
    })

  // ruleOf returns the limiter of a limit, its dimensions, and its numbers for header fields.
  function ruleOf(limit) {
    if (o.policy !== undefined)
      return { limiter: weir.policy(o.policy), dimensions: ['ip'], numbers: {} }
    const isNumber = typeof limit === 'number'
    const texts = isNumber ? [textOf(limit, o.windowMs, 'key')] : [].concat(limit)
    const id = JSON.stringify(texts)
    const known = rules.get(id)
    if (known) return known
    const name = o.name ?? (isNumber ? nameOf(limit, o.windowMs) : undefined)
    const rule = {
      limiter: weir.limit(texts, { name }),
      dimensions: dimensionsOf(texts),
      numbers: texts.length === 1 ? numbersOf(texts[0]) : {},
    }
    if (rules.size >= 1000) rules.clear() // limits that a function makes have no end
    rules.set(id, rule)
    return rule
  }

  // keyOf returns the key of a value of keyGenerator.
  function keyOf(value, { dimensions }) {
    if (typeof value === 'object' && value !== null) return value
    if (dimensions.length > 1) {
      throw inputError(
        `the limits count by ${dimensions.join(', ')}; return an object with these from keyGenerator`,
      )
    }
    return dimensions.length === 0 ? {} : { [dimensions[0]]: value }
  }

  async function limit(request, response, next) {
    if (await o.skip(request, response)) return next()
    const rule = fixed ?? ruleOf(await o.limit(request, response))
    const { limiter, numbers } = rule
    const key = keyOf(await generate(request, response), rule)
    let d
    try {
      d = await limiter.take(key)
      if (d.error && !d.allowed) throw d.error
    } catch (err) {
      const isAway = err instanceof WeirError && err.kind === 'unavailable'
      if (isAway && o.passOnStoreError) return next()
      if (isAway) err.status = err.statusCode = 503
      throw err
    }
    if (d.error) return next() // whenDown allows it
    const text = Object.values(key).join(' ')
    const info = {
      ...numbers,
      name: limiter.name || 'limit',
      used: numbers.limit === undefined ? undefined : numbers.limit - d.remaining,
      remaining: Math.max(d.remaining, 0),
      resetMs: d.allowed ? d.resetAfterMs : d.retryAfterMs,
      resetTime: undefined,
      key: text,
      decision: d,
    }
    if (Number.isFinite(info.resetMs)) info.resetTime = new Date(Date.now() + info.resetMs)
    request[o.requestPropertyName] = info
    setHeaders(response, info, o)
    if (d.allowed) {
      if (o.skipFailedRequests || o.skipSuccessfulRequests)
        countBack(request, response, () => limiter.refund(key, d))
      return next()
    }
    if (Number.isFinite(d.retryAfterMs) && !response.headersSent) {
      response.setHeader('Retry-After', String(Math.ceil(d.retryAfterMs / 1000)))
    }
    await (o.handler ?? deny)(request, response, next, o)
  }

  async function deny(request, response) {
    const message = typeof o.message === 'function' ? await o.message(request, response) : o.message
    if (!response.writableEnded) response.status(o.statusCode).send(message)
  }

  // countBack refunds the request at its end, if its outcome is left out.
  function countBack(request, response, refund) {
    let ended = false
    const end = async (finished) => {
      if (ended) return
      ended = true
      const successful = finished && (await o.requestWasSuccessful(request, response))
      const leftOut = successful ? o.skipSuccessfulRequests : o.skipFailedRequests
      if (leftOut) await refund()
    }
    const report = (err) =>
      console.error(`weirlimit: a request was not counted back: ${err.message}`)
    response.once('finish', () => end(true).catch(report))
    response.once('close', () => end(false).catch(report))
  }

  function middleware(request, response, next) {
    limit(request, response, next).catch(next)
  }
  middleware.resetKey = async (value) => {
    if (!fixed)
      throw inputError(
        'resetKey needs a limit that is no function; reset the key of its limiter: weir.limit(…).reset(key)',
      )
    await fixed.limiter.reset(keyOf(value, fixed))
  }
  return middleware
}

// checkAddress names each likely mistake of the client address once.
function checkAddress(request, warn) {
  const { ip } = request
  if (ip === undefined || !isIP(ip)) {
    warn('ip', `request.ip is ${JSON.stringify(ip)}, which is no address; pass a keyGenerator`)
  }
  const trust = request.app.get('trust proxy')
  if (trust === true) {
    warn(
      'trustProxy',
      "'trust proxy' is true, so any client chooses its address; set the number of proxies: app.set('trust proxy', 1)",
    )
  }
  if (request.headers['x-forwarded-for'] && trust === false) {
    warn(
      'xForwardedForHeader',
      "a request has X-Forwarded-For, but 'trust proxy' is not set, so all clients of the proxy count as one; " +
        "behind a proxy call app.set('trust proxy', 1)",
    )
  }
  if (request.headers.forwarded && ip === request.socket?.remoteAddress) {
    warn(
      'forwardedHeader',
      'a request has Forwarded, which Express ignores; pass a keyGenerator that reads it',
    )
  }
}

// warnings returns a function that prints each warning once, unless validate turns it off.
function warnings(validate) {
  const printed = new Set()
  return (name, text) => {
    const on =
      typeof validate === 'object' ? (validate[name] ?? validate.default ?? true) : validate
    if (!on || printed.has(name)) return
    printed.add(name)
    console.error(`weirlimit: ${text} (validate: { ${name}: false } hides this)`)
  }
}

module.exports = { rateLimit, WeirStore, ipKeyGenerator, default: rateLimit }
