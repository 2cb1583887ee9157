'use strict'

const { Decision, fromWire } = require('./decision')
const { Connection, encode } = require('./resp')

// A RespFront makes calls over the listener for Redis clients.
class RespFront {
  constructor(address, options) {
    this.address = address
    this.connection = new Connection(address, options)
  }

  // send makes a call and calls done with an error or the answer, once. It returns an entry for
  // abandon.
  send(call, done) {
    call.encoded ??= encode(commandOf(call)) // for all attempts: the program may change its key
    return this.connection.send(call.encoded, (err, reply) => {
      if (err) return done(err)
      const answer = answerOf(call, reply)
      if (answer) done(undefined, answer)
      else done(this.connection.none(JSON.stringify(reply)))
    })
  }

  abandon(entry) {
    this.connection.abandon(entry)
  }

  close() {
    this.connection.close()
  }
}

const names = {
  check: 'WEIR.CHECK',
  peek: 'WEIR.PEEK',
  record: 'WEIR.RECORD',
  count: 'WEIR.COUNT',
  refund: 'WEIR.REFUND',
  reset: 'WEIR.RESET',
  block: 'WEIR.BLOCK',
  reserve: 'WEIR.RESERVE',
  settle: 'WEIR.SETTLE',
  release: 'WEIR.RELEASE',
  extend: 'WEIR.EXTEND',
}

// commandOf returns the arguments of a call.
function commandOf(call) {
  const args = [names[call.verb]]
  if (call.reservation !== undefined) {
    args.push(call.reservation)
  } else {
    args.push(call.policy)
    for (const name in call.key) args.push(`${name}=${call.key[name]}`)
  }
  if (call.at !== undefined) args.push(String(call.at))
  if (call.lastMs !== undefined) args.push(String(call.lastMs))
  if (call.forMs !== undefined) args.push(String(call.forMs))
  if (call.n !== undefined) args.push(String(call.n))
  if (call.actual !== undefined) args.push(String(call.actual))
  if (call.reserved !== undefined) args.push(String(call.reserved))
  if (call.ttlMs !== undefined) args.push('TTL', String(call.ttlMs))
  if (call.maxWaitMs !== undefined) args.push('WAIT', String(call.maxWaitMs))
  if (call.id !== undefined) args.push('ID', call.id)
  if (call.counted !== undefined) args.push('LIMIT', call.counted)
  if (call.only) for (const name of call.only) args.push('LIMIT', name)
  if (call.limits) for (const text of call.limits) args.push('LIMITS', text)
  return args
}

// answerOf returns the answer in a reply, or undefined if it is none of weir.
function answerOf(call, reply) {
  switch (call.verb) {
    case 'check':
    case 'peek':
    case 'record':
    case 'reserve':
    case 'extend':
      return decisionOf(call, reply)
    case 'refund':
      return typeof reply === 'number' ? { refunded: reply } : undefined
    case 'count':
      return typeof reply === 'number' ? { count: reply } : undefined
    case 'reset':
      return areLists(reply) ? { reset: reply[0], kept: reply[1] } : undefined
    case 'block':
      return Array.isArray(reply) && Array.isArray(reply[0])
        ? { limits: reply[0], blockedUntil: reply[1] }
        : undefined
    default: // settle, release
      return areNumbers(reply, 4)
        ? { reserved: reply[0], actual: reply[1], refunded: reply[2], recorded: reply[3] }
        : undefined
  }
}

// sizeOf returns the number of elements of a decision, at least: nine, and those of its options.
function sizeOf(call) {
  let size = 9
  if (call.verb === 'reserve' || call.verb === 'extend') size += 2
  if (call.id !== undefined) size++
  if (call.maxWaitMs !== undefined) size += 2
  return size
}

// decisionOf returns the decision in a reply of nine elements and more. Later versions of weir may
// append elements.
function decisionOf(call, reply) {
  const isDecision =
    Array.isArray(reply) &&
    reply.length >= sizeOf(call) &&
    typeof reply[5] === 'string' &&
    areNumbers(reply, 5)
  if (!isDecision || typeof reply[6] !== 'number') return undefined
  const d = new Decision()
  d.allowed = reply[0] === 1
  d.granted = reply[1]
  d.remaining = reply[2]
  d.retryAfterMs = fromWire(reply[3])
  d.resetAfterMs = fromWire(reply[4])
  d.limit = reply[5]
  d.at = reply[6]
  d.degraded = reply[7] === 1
  d.cached = reply[8] === 1
  let next = 9
  if (call.verb === 'reserve') {
    d.reservation = reply[next++]
    d.expiresAt = reply[next++]
  } else if (call.verb === 'extend') {
    d.units = reply[next++]
    d.expiresAt = reply[next++]
  }
  if (call.id !== undefined) d.replayed = reply[next++] === 1
  let end = reply.length
  if (call.maxWaitMs !== undefined) {
    d.startAfterMs = fromWire(reply[--end])
    d.startAt = reply[--end]
  }
  if (next < end) d.heldUntil = reply[next]
  return d
}

function areNumbers(list, size) {
  if (!Array.isArray(list) || list.length < size) return false
  for (let i = 0; i < size; i++) if (typeof list[i] !== 'number') return false
  return true
}

const areLists = (reply) =>
  Array.isArray(reply) && Array.isArray(reply[0]) && Array.isArray(reply[1])

module.exports = { RespFront }
