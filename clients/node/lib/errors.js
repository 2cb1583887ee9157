'use strict'

// WeirError is a call without a decision. A denial is no error. Its kind is one of:
//
//   input        the call is wrong: by this package before it was sent, or by the server
//   auth         the token is missing or wrong
//   unavailable  no decision: no answer in time, or the server could not decide
//   settled      the reservation was settled before, with other units
//   expired      the reservation is unknown or has expired, or its hold has ended
//   protocol     the answer is none of weir: another server, or another version
//
// Nothing was charged, except that of an unavailable call the outcome is unknown.
class WeirError extends Error {
  constructor(kind, message, options) {
    super(message, options)
    this.name = 'WeirError'
    this.kind = kind
    this.code = 'WEIR_' + kind.toUpperCase()
  }
}

const inputError = (message) => new WeirError('input', message)
const unavailable = (message, cause) => new WeirError('unavailable', message, { cause })

// undecided is an answer of weir without a decision, because its store is away or it has too much
// to do.
function undecided(message) {
  const err = unavailable(message)
  err.answered = true
  return err
}

const protocolError = (message, cause) => new WeirError('protocol', message, { cause })

// authError words the errors of both fronts alike.
function authError(hasToken) {
  const problem = hasToken ? 'the token is wrong' : 'weir requires a token'
  const next = 'pass the text of the file that weir serve --token-file names'
  return new WeirError('auth', `${problem}; ${next}`)
}

const ofTLS = /^(CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)/

// lostError returns the error of a connection to a server. Errors of TLS are no outage: a retry
// would not help, and whenDown must not hide them.
function lostError(server, err) {
  const code = String(err.code ?? '')
  if (!ofTLS.test(code))
    return unavailable(`no connection to ${server}: ${err.message || code}`, err)
  const speaksNone = code === 'EPROTO' || code.startsWith('ERR_SSL_')
  const next = speaksNone
    ? 'write redis:// or http:// for a listener without TLS'
    : 'pass its authority as tls: { ca }'
  return protocolError(`no TLS connection to ${server} (${code}: ${err.message}); ${next}`, err)
}

// clip returns a text for an error, shortened.
function clip(text) {
  text = String(text)
  return JSON.stringify(text.length > 60 ? text.slice(0, 60) + '…' : text)
}

module.exports = {
  WeirError,
  inputError,
  unavailable,
  undecided,
  protocolError,
  authError,
  lostError,
  clip,
}
