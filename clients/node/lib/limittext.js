'use strict'

// This file reads what header fields and keys need from the text of a limit. The grammar belongs to
// weir: docs/policies.md. A text that is not understood here still limits.

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const windowMs = {
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
}

// numbersOf returns { limit, windowMs } of a rolling or fixed limit such as '10 per minute per
// user', or an empty object.
function numbersOf(text) {
  const m =
    /^\s*([\d_]+)(?:\s+[\p{L}\p{N}_-]+)?\s+per\s+(?:(\d+)(ms|s|m|h|d)|(second|minute|hour|day|week))\b/u.exec(
      text,
    )
  if (!m || /\bburst\b/.test(text)) return {}
  const [, count, length, unit, name] = m
  return {
    limit: Number(count.replaceAll('_', '')),
    windowMs: name ? windowMs[name] : Number(length) * unitMs[unit],
  }
}

// dimensionsOf returns the dimensions by which limits count, such as ['user'].
function dimensionsOf(texts) {
  const all = new Set()
  for (const text of texts) {
    const [head] = text.split(',')
    const words = [...head.matchAll(/\bper\s+([^\s,]+)/g)].map((m) => m[1])
    for (const name of /\bat\s+once\b/.test(head) ? words : words.slice(1)) all.add(name)
  }
  return [...all]
}

// identifierOf returns the name that express-rate-limit makes of a limit, such as 5-in-1min.
function identifierOf({ limit, windowMs: ms }) {
  if (ms < unitMs.m) return `${limit}-in-${ms / unitMs.s}sec`
  if (ms < unitMs.h) return `${limit}-in-${ms / unitMs.m}min`
  const [n, unit] = ms < unitMs.d ? [ms / unitMs.h, 'hr'] : [ms / unitMs.d, 'day']
  return `${limit}-in-${n}${unit}${n > 1 ? 's' : ''}`
}

// textOf returns the limit of express-rate-limit and its kind as text.
const textOf = (limit, windowMs, dimension) => `${limit} per ${windowMs}ms per ${dimension}`

// nameOf returns the name under which such a limit counts.
const nameOf = (limit, windowMs) => `express-${limit}-per-${windowMs}ms`

module.exports = { nameOf, textOf, numbersOf, dimensionsOf, identifierOf }
