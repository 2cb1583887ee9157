'use strict'

const { createHash } = require('node:crypto')

const seconds = (ms) => Math.ceil(ms / 1000)

// setHeaders sets the fields of express-rate-limit. info has remaining, resetMs, for draft 8 name,
// and of a single limit in the code limit and windowMs; fields that need an unknown number are left
// out.
function setHeaders(response, info, { legacyHeaders, standardHeaders }) {
  if (response.headersSent) return
  if (legacyHeaders) setLegacyHeaders(response, info)
  switch (standardHeaders) {
    case 'draft-6':
      return setDraft6Headers(response, info)
    case 'draft-7':
      return setDraft7Headers(response, info)
    case 'draft-8':
      return setDraft8Headers(response, info)
  }
}

function setLegacyHeaders(response, info) {
  if (info.limit !== undefined) response.setHeader('X-RateLimit-Limit', String(info.limit))
  response.setHeader('X-RateLimit-Remaining', String(info.remaining))
  if (!Number.isFinite(info.resetMs)) return
  response.setHeader('Date', new Date().toUTCString())
  response.setHeader('X-RateLimit-Reset', String(seconds(Date.now() + info.resetMs)))
}

function setDraft6Headers(response, info) {
  if (info.limit !== undefined) {
    response.setHeader('RateLimit-Policy', `${info.limit};w=${seconds(info.windowMs)}`)
    response.setHeader('RateLimit-Limit', String(info.limit))
  }
  response.setHeader('RateLimit-Remaining', String(info.remaining))
  if (Number.isFinite(info.resetMs))
    response.setHeader('RateLimit-Reset', String(seconds(info.resetMs)))
}

function setDraft7Headers(response, info) {
  const parts = []
  if (info.limit !== undefined) {
    response.setHeader('RateLimit-Policy', `${info.limit};w=${seconds(info.windowMs)}`)
    parts.push(`limit=${info.limit}`)
  }
  parts.push(`remaining=${info.remaining}`)
  if (Number.isFinite(info.resetMs)) parts.push(`reset=${seconds(info.resetMs)}`)
  response.setHeader('RateLimit', parts.join(', '))
}

function setDraft8Headers(response, info) {
  const name = JSON.stringify(info.name)
  const reset = Number.isFinite(info.resetMs) ? `; t=${seconds(info.resetMs)}` : ''
  response.append('RateLimit', `${name}; r=${info.remaining}${reset}`)
  if (info.limit === undefined) return
  const partition = createHash('sha256').update(info.key).digest('hex').slice(0, 12)
  response.append(
    'RateLimit-Policy',
    `${name}; q=${info.limit}; w=${seconds(info.windowMs)}; pk=:${Buffer.from(partition).toString('base64')}:`,
  )
}

module.exports = { setHeaders }
