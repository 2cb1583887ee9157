'use strict'

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
  }
  return undefined
}

// checkNumber returns an error for a number that is not whole or out of range, or undefined.
function checkNumber(name, n, least, most, of = '') {
  if (n === undefined || (Number.isInteger(n) && n >= least && n <= most)) return undefined
  return inputError(`${name} must be a whole number${of}, ${least} to ${most}, not ${shown(n)}`)
}

const checkMillis = (name, ms, least = 0) =>
  checkNumber(name, ms, least, MAX_MILLIS, ' of milliseconds')

// shown returns a value as JSON writes it, or its type.
function shown(value) {
  if (typeof value === 'number') return String(value)
  return JSON.stringify(value) ?? typeof value
}

const checkUnits = (n) => checkNumber('n', n, 0, MAX_UNITS)

// checkID returns an error for an idempotency key that is none, or undefined.
function checkID(id) {
  if (id === undefined) return undefined
  if (typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= MAX_ID_BYTES) return undefined
  return inputError('an id is text of 1 to 128 bytes; leave it out for an operation without one')
}

module.exports = { MAX_UNITS, checkKey, checkNumber, checkMillis, checkUnits, checkID, shown }
