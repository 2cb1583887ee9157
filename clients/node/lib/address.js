'use strict'

const { inputError } = require('./errors')

// readAddress returns the parts of the address of a server:
//
//   redis://host:port   rediss://host:port   unix:/path/of/a/socket   the listener for Redis clients
//   http://host:port    https://host:port                             the listener of HTTP
//
// A password in the address is the token.
function readAddress(text) {
  if (typeof text !== 'string' || text === '') {
    throw inputError(
      'url is missing; pass it, or set WEIR_URL, to the address of weir serve --resp-listen, such as ' +
        'redis://127.0.0.1:7073, or that of --listen, such as http://127.0.0.1:7070',
    )
  }
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length).replace(/^\/\/(?=\/)/, '')
    if (!path) throw inputError('the url unix: has no path; write unix:/run/weir.sock')
    return { front: 'resp', path, tls: false, shown: text }
  }
  let url, token
  try {
    url = new URL(text)
    token = url.password ? decodeURIComponent(url.password) : undefined
  } catch {
    throw wrongAddress(text)
  }
  const schemes = {
    'redis:': ['resp', false],
    'rediss:': ['resp', true],
    'http:': ['http', false],
    'https:': ['http', true],
  }
  if (url.username && !url.password) {
    throw inputError(
      `the url ${masked(text)} has a user and no password; the password is the token, as in ` +
        `${url.protocol}//:TOKEN@${url.host}`,
    )
  }
  const scheme = schemes[url.protocol]
  const tail = url.pathname.replace(/^\/$/, '') + url.search + url.hash
  if (!scheme || !url.hostname || tail) throw wrongAddress(text)
  const [front, tls] = scheme
  return {
    front,
    tls,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (front === 'resp' ? 7073 : tls ? 443 : 80),
    token,
    shown: `${url.protocol}//${url.host}`,
  }
}

function wrongAddress(text) {
  const token = text.includes('@') ? '; in a token write / as %2F, and # as %23' : ''
  return inputError(
    `the url ${masked(text)} is no address; write redis://host:port (rediss:// with TLS), ` +
      `unix:/path, or http://host:port (https:// with TLS), without a path${token}`,
  )
}

// masked returns a url for an error, without what may be a token.
const masked = (text) => JSON.stringify(text.replace(/^([a-z]*:(?:\/\/)?)?.*@/s, '$1…@'))

module.exports = { readAddress }
