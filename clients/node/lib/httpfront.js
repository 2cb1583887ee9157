'use strict'

const http = require('node:http')
const https = require('node:https')
const { Decision, fromWire } = require('./decision')
const {
  WeirError,
  unavailable,
  undecided,
  protocolError,
  authError,
  lostError,
  clip,
} = require('./errors')

// A HttpFront makes calls over HTTP, where the listener for Redis clients is not open. A call costs
// several times as much. docs/http-api.md describes the calls.
class HttpFront {
  constructor(address, options) {
    this.address = address
    this.token = options.token
    const library = address.tls ? https : http
    this.request = library.request
    this.agent = new library.Agent({
      keepAlive: true,
      maxSockets: options.maxSockets,
      ...(address.tls ? options.tls : {}),
    })
  }

  // send makes a call and calls done with an error or the answer, once. It returns an entry for
  // abandon.
  send(call, done) {
    call.encoded ??= requestOf(call) // for all attempts: the program may change its key
    const [method, path, body] = call.encoded
    const headers = {}
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json'
      headers['Content-Length'] = Buffer.byteLength(body)
    }
    if (this.token !== undefined) headers.Authorization = `Bearer ${this.token}`
    const { host, port } = this.address
    let open = true
    const end = (err, answer) => {
      if (!open) return
      open = false
      done(err, answer)
    }
    const request = this.request(
      {
        agent: this.agent,
        host,
        port,
        method,
        path,
        headers,
      },
      (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (piece) => {
          text += piece
        })
        response.on('end', () => this.receive(call, response, text, end))
        response.on('error', (err) => end(this.lost(err)))
        response.on('aborted', () =>
          end(unavailable(`${this.address.shown} closed the connection`)),
        )
      },
    )
    request.on('error', (err) => end(this.lost(err)))
    request.end(body)
    return {
      request,
      silence: () => {
        open = false
      },
    }
  }

  abandon(entry) {
    entry.silence()
    entry.request.destroy()
  }

  close() {
    this.agent.destroy()
  }

  receive(call, response, text, end) {
    const { statusCode } = response
    const body = parsed(text)
    const isAnswer = statusCode === 200 || (statusCode === 429 && call.verb === 'extend')
    if (!isAnswer) return end(this.errorOf(statusCode, body, text))
    const answer = answerOf(call, body)
    if (answer) end(undefined, answer)
    else end(this.none(clip(text)))
  }

  // errorOf returns the error for a status.
  errorOf(status, body, text) {
    const detail = body?.detail
    if (typeof detail !== 'string') {
      // A proxy answers 502, 503 and 504 with words of its own while weir is away.
      if (status >= 502) return unavailable(`${this.address.shown} answers with status ${status}`)
      return this.none(`${status} ${clip(text)}`)
    }
    switch (status) {
      case 400:
        return new WeirError('input', detail)
      case 404:
        return detail.includes('no policy')
          ? new WeirError('input', detail)
          : this.none(clip(detail))
      case 401:
        return authError(this.token !== undefined)
      case 403:
        return new WeirError('auth', detail)
      case 409:
        return new WeirError('settled', detail)
      case 410:
        return new WeirError('expired', detail)
    }
    return status >= 500 ? undecided(detail) : this.none(`${status} ${clip(detail)}`)
  }

  // lost returns the error of a connection. An answer that is no HTTP is no outage.
  lost(err) {
    const { code } = err
    const isHTTP = !String(code).startsWith('HPE_')
    return isHTTP
      ? lostError(this.address.shown, err)
      : this.none(`an answer that is not HTTP (${code})`, err)
  }

  none(text, cause) {
    const next = text.includes('HTTPS server')
      ? 'this listener uses TLS: write https:// for the scheme'
      : 'give the address of weir serve --listen, of the version of this package'
    return protocolError(`${text} of ${this.address.shown} is no answer of weir; ${next}`, cause)
  }
}

// parsed returns the value of a text in JSON, or undefined.
function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// requestOf returns the method, the path and the body of a call.
function requestOf(call) {
  if (call.verb === 'reset') {
    const query = new URLSearchParams()
    for (const name in call.key)
      query.append(name === 'limit' || name === 'limits' ? `key.${name}` : name, call.key[name])
    for (const name of call.only ?? []) query.append('limit', name)
    for (const text of call.limits ?? []) query.append('limits', text)
    return ['DELETE', `/v1/keys/${encodeURIComponent(call.policy)}?${query}`]
  }
  const body =
    call.reservation === undefined
      ? { policy: call.policy || undefined, key: call.key }
      : { reservation: call.reservation }
  if (call.limits) body.limits = call.limits
  if (call.only) body.limit_names = call.only
  if (call.at !== undefined) body.granted_at_us = call.at
  if (call.lastMs !== undefined) body.last_ms = call.lastMs
  if (call.counted !== undefined) body.limit = call.counted
  if (call.forMs !== undefined) body.for_ms = call.forMs
  if (call.n !== undefined) body.n = call.n
  if (call.actual !== undefined) body.actual = call.actual
  if (call.reserved !== undefined) body.reserved = call.reserved
  if (call.ttlMs !== undefined) body.ttl_ms = call.ttlMs
  if (call.maxWaitMs !== undefined) body.max_wait_ms = call.maxWaitMs
  if (call.id !== undefined) body.id = call.id
  return ['POST', `/v1/${call.verb}`, JSON.stringify(body)]
}

// answerOf returns the answer in a body, or undefined if it is none of weir.
function answerOf(call, body) {
  switch (call.verb) {
    case 'check':
    case 'peek':
    case 'record':
    case 'reserve':
      return isDecision(body) ? decisionOf(body) : undefined
    case 'extend':
      return extensionOf(body)
    case 'refund':
      return typeof body?.refunded === 'number' ? { refunded: body.refunded } : undefined
    case 'count':
      return typeof body?.count === 'number' ? { count: body.count } : undefined
    case 'reset':
      return Array.isArray(body?.reset) ? { reset: body.reset, kept: body.kept } : undefined
    case 'block':
      return Array.isArray(body?.limits)
        ? { limits: body.limits, blockedUntil: micros(body.blocked_until) }
        : undefined
    default: {
      // settle, release
      const { reserved, actual, refunded, recorded } = body ?? {}
      const areNumbers = [reserved, actual, refunded, recorded].every(isNumber)
      return areNumbers ? { reserved, actual, refunded, recorded } : undefined
    }
  }
}

const isNumber = (value) => typeof value === 'number'

// isDecision reports whether a body has what every decision of weir has.
function isDecision(body) {
  const { allowed, limit, granted, remaining } = body ?? {}
  const numbers = [granted, remaining, body?.retry_after_ms, body?.reset_after_ms]
  return typeof allowed === 'boolean' && typeof limit === 'string' && numbers.every(isNumber)
}

function decisionOf(body) {
  const d = new Decision()
  d.allowed = body.allowed
  d.granted = body.granted
  d.remaining = body.remaining
  d.retryAfterMs = fromWire(body.retry_after_ms)
  d.resetAfterMs = fromWire(body.reset_after_ms)
  d.startAfterMs = fromWire(body.start_after_ms ?? 0)
  d.startAt = micros(body.start_at)
  d.limit = body.limit
  d.at = micros(body.at)
  d.degraded = body.degraded === true
  d.cached = body.cached === true
  d.replayed = body.replayed === true
  if (body.reservation !== undefined) d.reservation = body.reservation
  if (body.expires_at !== undefined) d.expiresAt = micros(body.expires_at)
  if (body.held_until !== undefined) d.heldUntil = micros(body.held_until)
  return d
}

// extensionOf returns the decision on an extension. The answer to a granted one has no decision.
function extensionOf(body) {
  if (isDecision(body)) return decisionOf(body)
  if (typeof body?.reserved !== 'number') return undefined
  const d = new Decision()
  d.allowed = true
  d.units = body.reserved
  d.expiresAt = micros(body.expires_at)
  if (body.held_until !== undefined) d.heldUntil = micros(body.held_until)
  return d
}

// micros returns an instant such as 2026-11-20T13:07:31.000005Z in microseconds since 1970. A Date
// has milliseconds only.
function micros(text) {
  if (typeof text !== 'string') return 0
  const [seconds, fraction = ''] = text.replace(/Z$/, '').split('.')
  return Date.parse(seconds + 'Z') * 1000 + Number(fraction.padEnd(6, '0'))
}

module.exports = { HttpFront }
