'use strict'

const { inspect } = require('node:util')
const { inputError } = require('./errors')

// The bounds of docs/semantics.md and docs/http-api.md.
const MAX_UNITS = 2 ** 51 - 1
const MAX_VALUE_BYTES = 1024
const MAX_ID_BYTES = 128
const MAX_MILLIS = 400 * 24 * 3600 * 1000

// checkKey returns an error for a key that must not be sent, or undefined.
function checkKey(key) {
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    return inputError('a key is an object with a value for each dimension, such as { user: "ann" }')
  }
  for (const name in key) {
    const value = key[name]
    if (name === '' || name.includes('=')) {
      return inputError(
        `${shown(name)} is no name of a dimension; a name is not empty and has no =`,
      )
    }
    if (typeof value !== 'string') {
      return inputError(`the value of "${name}" is no text; pass text, such as an id in digits`)
    }
    if (value === '') {
      return inputError(
        `the value of "${name}" is empty; callers without a value must not share a ` +
          'history, so reject them before the call',
      )
    }
    // A UTF-16 unit is at most 3 bytes of UTF-8.
    if (value.length * 3 > MAX_VALUE_BYTES && Buffer.byteLength(value) > MAX_VALUE_BYTES) {
      const err = inputError(
        `the value of "${name}" has ${Buffer.byteLength(value)} bytes, and at most ` +
          `${MAX_VALUE_BYTES} are allowed; pass a hash of it`,
      )
      err.status = 400 // for Express: it is most likely a mistake of the caller of the program
      return err
    }
    if (!isUnicode(value)) {
      const err = notUnicode(`the value of "${name}"`)
      err.status = 400
      return err
    }
  }
  return undefined
}

// isUnicode reports whether a text has no surrogate alone: all of these are one letter in UTF-8, so
// different values would share a history. Node 18 has no isWellFormed.
const isUnicode = String.prototype.isWellFormed
  ? (text) => text.isWellFormed()
  : (text) => !/\p{Surrogate}/u.test(text)

const notUnicode = (what) =>
  inputError(`${what} is no valid Unicode (a surrogate stands alone); decode it as UTF-8 first`)

// checkText returns an error for a text that is not sent as it is, or undefined.
const checkText = (what, text) => (isUnicode(text) ? undefined : notUnicode(what))

// checkNumber returns an error for a number that is not whole or out of range, or undefined.
function checkNumber(name, n, least, most, of = '') {
  if (n === undefined || (Number.isInteger(n) && n >= least && n <= most)) return undefined
  return inputError(`${name} must be a whole number${of}, ${least} to ${most}, not ${shown(n)}`)
}

const checkMillis = (name, ms, least = 0) =>
  checkNumber(name, ms, least, MAX_MILLIS, ' of milliseconds')

// checkWait returns an error for a longest wait that is none, or undefined. Infinity is as long as
// the policy allows.
const checkWait = (ms) => (ms === Infinity ? undefined : checkMillis('the longest wait', ms))

// shown returns a short form of a value for an error.
function shown(value) {
  const isText = typeof value === 'string'
  const text = isText ? JSON.stringify(value) : inspect(value, { depth: 0, breakLength: Infinity })
  return text.length > 60 ? text.slice(0, 59) + '…' : text
}

const checkUnits = (n, least = 0) => checkNumber('n', n, least, MAX_UNITS)

// checkID returns an error for an idempotency key that is none, or undefined.
function checkID(id) {
  if (id === undefined) return undefined
  if (typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= MAX_ID_BYTES)
    return checkText('the id', id)
  return inputError('an id is text of 1 to 128 bytes; leave it out for an operation without one')
}

// checkNames returns an error for names of limits that are none, or undefined.
function checkNames(names) {
  if (names === undefined) return undefined
  const isList = Array.isArray(names) && names.every((name) => typeof name === 'string' && name)
  if (!isList) return inputError(`limits is a list of names of limits, not ${shown(names)}`)
  return checkText('a name', names.join())
}

// checkSignal returns an error for a signal that is none, or undefined.
function checkSignal(signal) {
  if (signal === undefined || typeof signal?.throwIfAborted === 'function') return undefined
  return inputError(
    `signal is an AbortSignal, such as AbortSignal.timeout(1000), not ${shown(signal)}`,
  )
}

// readOptions returns the options of a call. It throws for a value that is none, such as the number
// of units in their place, and for an option that the call does not have.
function readOptions(options, ...known) {
  if (typeof options !== 'object' || options === null) {
    throw inputError(`options are an object, such as { ${known[0]}: … }, not ${shown(options)}`)
  }
  for (const name in options) {
    if (!known.includes(name))
      throw inputError(`no option ${shown(name)}; this call has ${known.join(', ')}`)
  }
  return options
}

module.exports = {
  MAX_MILLIS,
  MAX_UNITS,
  checkKey,
  checkNumber,
  checkMillis,
  checkWait,
  checkUnits,
  checkID,
  checkNames,
  checkSignal,
  checkText,
  readOptions,
  shown,
}
