'use strict'

const { Weir, optionNames } = require('./client')
const { inputError } = require('./errors')

// clientOf splits options into a client and the others: the client is `weir`, or a new one with the
// options of Weir among them. isOwn reports whether it is new.
function clientOf(options, others) {
  const { weir, ...rest } = typeof options === 'string' ? { url: options } : (options ?? {})
  const mine = {}
  for (const name in rest) {
    if (rest[name] === undefined) delete rest[name]
  }
  for (const name of others) {
    if (name in rest) mine[name] = rest[name]
    delete rest[name]
  }
  const isOwn = weir === undefined
  const known = isOwn ? ['weir', ...optionNames] : []
  const extra = Object.keys(rest).find((name) => !known.includes(name))
  if (extra !== undefined)
    throw inputError(
      `no option ${JSON.stringify(extra)}${isOwn ? '' : ' beside weir'}; ` +
        `there are ${[...others, ...known].join(', ')}`,
    )
  if (isOwn) return { weir: new Weir(rest), isOwn, ...mine }
  if (!(weir instanceof Weir)) throw inputError('weir must be a client: new Weir({ url })')
  return { weir, isOwn, ...mine }
}

const used = new Map() // the stores of each name, to find two that share their counts by mistake

// warnOfSharedName prints once that two stores of this process count together.
function warnOfSharedName(store, weir, name) {
  const key = `${weir.options.url} ${name}`
  const first = used.get(key)?.deref()
  if (first === undefined) used.set(key, new WeakRef(store))
  else if (first !== store) {
    console.warn(
      `weirlimit: two stores have the name "${name}", so they count the requests of a client together; ` +
        'pass { name } to each',
    )
  }
}

module.exports = { clientOf, warnOfSharedName }
