'use strict'

const { isIP } = require('node:net')
const { ipKeyGenerator } = require('./lib/clientip')
const { WeirError, inputError } = require('./lib/errors')
const { WeirStore } = require('./lib/expressstore')
const { setHeaders } = require('./lib/headers')
const { MAX_MILLIS, MAX_UNITS, checkNumber, shown } = require('./lib/input')
const { dimensionsOf, identifierOf, nameOf, numbersOf, textOf } = require('./lib/limittext')
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
  logger: console,
}

const names = [
  'limit',
  'policy',
  'name',
  'identifier',
  'keyGenerator',
  'handler',
  'retryAfter',
  'max',
  'headers',
  'passOnStoreError',
  ...Object.keys(defaults),
]

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
  const { weir, isOwn: _, ...given } = clientOf(options, names)
  const o = withDefaults(given)
  const rules = new Map() // by the text of their limits
  const fixed = typeof o.limit === 'function' ? undefined : ruleOf(o.limit)
  const warn = warnings(o)
  const countsBack = o.skipFailedRequests || o.skipSuccessfulRequests
  const generate = o.keyGenerator ?? addressOf
  if (o.policy === undefined && takesAddress(o.keyGenerator)) {
    warn(
      'keyGeneratorIpFallback',
      'keyGenerator takes the address of the request as it is, and an IPv6 client has many; ' +
        'return ipKeyGenerator(request.ip)',
    )
  }

  // addressOf is the default keyGenerator.
  async function addressOf(request, response) {
    checkAddress(request, warn)
    const { ipv6Subnet: subnet } = o
    return ipKeyGenerator(
      request.ip ?? '',
      typeof subnet === 'function' ? checkedSubnet(await subnet(request, response)) : subnet,
    )
  }

  // ruleOf returns the limiter of a limit, its dimensions, and its numbers for header fields.
  function ruleOf(limit) {
    if (o.policy !== undefined)
      return { limiter: weir.policy(o.policy), dimensions: ['ip'], numbers: {} }
    const isNumber = typeof limit === 'number'
    const problem = isNumber && checkNumber('limit', limit, 0, MAX_UNITS)
    if (problem) throw problem
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
    const ended = countsBack ? endOf(response) : undefined // it may end while weir decides
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
    const isDraft8 = o.standardHeaders === 'draft-8'
    const info = {
      ...numbers,
      name: isDraft8 ? await nameFor(request, response, rule) : undefined,
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
      ended?.then((end) => countBack(end, request, response, () => limiter.refund(key, d)))
      return next()
    }
    const after = Number.isFinite(d.retryAfterMs) ? Math.ceil(d.retryAfterMs / 1000) : undefined
    const seconds = (await valueOf(o.retryAfter, request, response)) ?? after
    if (seconds !== undefined && !response.headersSent) {
      response.setHeader('Retry-After', String(seconds))
    }
    await (o.handler ?? deny)(request, response, next, o)
  }

  // nameFor returns the name of a limit in the fields of draft 8.
  async function nameFor(request, response, { numbers }) {
    const given = (await valueOf(o.identifier, request, response)) ?? o.name ?? o.policy
    return given ?? (numbers.limit === undefined ? 'limit' : identifierOf(numbers))
  }

  async function deny(request, response) {
    const message = typeof o.message === 'function' ? await o.message(request, response) : o.message
    if (!response.writableEnded) response.status(o.statusCode).send(message)
  }

  // countBack refunds a request that has ended, if its outcome is left out.
  async function countBack(end, request, response, refund) {
    try {
      if (await isLeftOut(end, request, response)) await refund()
    } catch (err) {
      o.logger.error(`weirlimit: a request was not counted back: ${err.message}`)
    }
  }

  async function isLeftOut(end, request, response) {
    if (end !== 'sent') return end === 'abandoned' && o.skipFailedRequests
    const successful = await o.requestWasSuccessful(request, response)
    return successful ? o.skipSuccessfulRequests : o.skipFailedRequests
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
  middleware.getKey = async (value) => {
    if (fixed?.numbers.limit === undefined)
      throw inputError(
        'getKey needs one limit in the code; peek at the key of its limiter: weir.policy(…).peek(key)',
      )
    const d = await fixed.limiter.peek(keyOf(value, fixed))
    if (d.error) throw d.error
    const totalHits = fixed.numbers.limit - d.remaining
    if (totalHits <= 0) return undefined
    return { totalHits, resetTime: new Date(Date.now() + d.resetAfterMs) }
  }
  return middleware
}

// withDefaults returns the options with their defaults. It throws for those that are none.
function withDefaults(given) {
  const o = { ...defaults, ...given }
  o.limit ??= o.max
  o.legacyHeaders = given.legacyHeaders ?? given.headers ?? defaults.legacyHeaders
  if (o.standardHeaders === true) o.standardHeaders = 'draft-6'
  if (o.limit !== undefined && o.policy !== undefined) {
    throw inputError(
      'rateLimit takes limit or policy, not both; the numbers of a policy stand in the file of weir serve',
    )
  }
  if (o.policy === undefined) o.limit ??= 5
  const problem = checkNumber('windowMs', o.windowMs, 1, MAX_MILLIS)
  if (problem) throw problem
  if (![false, 'draft-6', 'draft-7', 'draft-8'].includes(o.standardHeaders)) {
    throw inputError(
      `standardHeaders must be true, false, "draft-6", "draft-7" or "draft-8", not ${shown(o.standardHeaders)}`,
    )
  }
  if (typeof o.ipv6Subnet !== 'function') checkedSubnet(o.ipv6Subnet)
  return o
}

// checkedSubnet returns a length of IPv6 networks. It throws for another one: with 0 all clients
// would share one history.
function checkedSubnet(subnet) {
  if (subnet === false || (Number.isInteger(subnet) && subnet >= 32 && subnet <= 64)) return subnet
  throw inputError(`ipv6Subnet must be a whole number, 32 to 64, or false, not ${shown(subnet)}`)
}

// valueOf returns an option that may be a function of the request.
const valueOf = (option, request, response) =>
  typeof option === 'function' ? option(request, response) : option

// endOf resolves to the end of a response: sent; cut off, although the application has ended it; or
// abandoned before that.
function endOf(response) {
  return new Promise((resolve) => {
    response.once('finish', () => resolve('sent'))
    response.once('close', () => resolve(response.writableEnded ? 'cut' : 'abandoned'))
  })
}

// takesAddress reports whether a keyGenerator most likely counts by request.ip.
function takesAddress(keyGenerator) {
  const text = String(keyGenerator)
  return /\breq(uest)?\.ip\b/.test(text) && !text.includes('ipKeyGenerator')
}

// checkAddress names each likely mistake of the client address once.
function checkAddress(request, warn) {
  const { ip } = request
  if (ip === undefined || !isIP(ip)) {
    warn('ip', `request.ip is ${JSON.stringify(ip)}, which is no address; pass a keyGenerator`)
  }
  const trust = request.app?.get?.('trust proxy') // other frameworks have no such setting
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
function warnings({ validate, logger }) {
  const printed = new Set()
  return (name, text) => {
    const on =
      typeof validate === 'object' ? (validate[name] ?? validate.default ?? true) : validate
    if (!on || printed.has(name)) return
    printed.add(name)
    logger.error(`weirlimit: ${text} (validate: { ${name}: false } hides this)`)
  }
}

// As with express-rate-limit the module itself is the function, too.
module.exports = Object.assign(rateLimit, {
  rateLimit,
  WeirStore,
  ipKeyGenerator,
  default: rateLimit,
})
