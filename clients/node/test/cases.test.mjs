// Runs the cases that all clients share: clients/testdata/README.md describes them.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Weir, WeirError } from '../index.mjs'
import { start } from './stand.mjs'

const { servers, cases } = JSON.parse(
  readFileSync(new URL('../../testdata/cases.json', import.meta.url), 'utf8'),
)

// settings returns the options of a client for a case.
function settings(c, server, options) {
  const {
    timeout_ms: timeout = 20_000,
    total_ms: totalTimeout = 40_000,
    retries,
    when_down: whenDown,
  } = c.client ?? {}
  const token = c.client && 'token' in c.client ? c.client.token : options.token
  return {
    timeout,
    totalTimeout,
    retries,
    whenDown,
    token: token ?? undefined,
    tls: server.ca && { ca: server.ca },
    breaker: 0,
  }
}

// expand returns a value of a case: {"repeat": text, "times": n} stands for a long text.
const expand = (v) => (typeof v?.repeat === 'string' ? v.repeat.repeat(v.times) : v)

const expandAll = (key) =>
  key && Object.fromEntries(Object.entries(key).map(([name, v]) => [name, expand(v)]))

// call makes the call of a step and returns its answer.
function call(weir, s, saved) {
  const of = saved.get(s.of)
  const { n, actual, ttl_ms: ttlMs, max_wait_ms: maxWaitMs } = s
  const id = expand(s.id)
  const key = expandAll(s.key)
  const limiter =
    s.policy === undefined && s.limit === undefined
      ? undefined
      : s.policy === undefined
        ? weir.limit(s.limit, { name: s.name })
        : weir.policy(s.policy)
  switch (s.call) {
    case 'take':
      return limiter.take(key, { n, id })
    case 'wait':
      return limiter.wait(key, { n, id, maxWaitMs })
    case 'peek':
      return limiter.peek(key, { n })
    case 'refund':
      return limiter.refund(key, of ?? s.at_us, { n, id }).then((refunded) => ({ refunded }))
    case 'reset':
      return limiter.reset(key, { limits: s.limits })
    case 'block':
      return limiter.block(key, s.for_ms, { limits: s.limits })
    case 'reserve':
      return limiter.reserve(key, { n, id, ttlMs, maxWaitMs })
    case 'settle':
      return of.settle(actual)
    case 'add':
      return of.add(n)
    default:
      return of[s.call]()
  }
}

// members returns an answer with the names of the file.
function members(answer) {
  const all = { ...answer, ...answer.decision }
  if (answer.units !== undefined) all.units = answer.units
  return Object.fromEntries(
    Object.entries(all).map(([name, v]) => [
      name.replace(/[A-Z]/g, (c) => '_' + c.toLowerCase()),
      v === Infinity ? -1 : v,
    ]),
  )
}

function matches(got, want) {
  if (!Array.isArray(want)) return got === want
  if (Array.isArray(got)) return JSON.stringify(got) === JSON.stringify(want)
  if (typeof got === 'boolean') return want.includes(got)
  return got >= want[0] && got <= want[1]
}

// check throws if a call has another answer than the step wants.
async function check(weir, s, saved) {
  const begun = performance.now()
  if (s.error) {
    const err = await call(weir, s, saved).then(
      (answer) => assert.fail(`no error, but ${JSON.stringify(answer)}`),
      (err) => err,
    )
    assert(err instanceof WeirError, err)
    assert.equal(err.kind, s.error.kind, err)
    if (s.error.by === 'client') assert.equal(err.message, s.error.text)
    else assert(err.message.includes(s.error.text ?? ''), err)
    return
  }
  const answer = await call(weir, s, saved)
  if (s.save) saved.set(s.save, answer)
  const got = { ...members(answer), elapsed_ms: performance.now() - begun }
  for (const [name, want] of Object.entries(s.want ?? {})) {
    assert(
      matches(got[name], want),
      `${name} is ${JSON.stringify(got[name])}, want ${JSON.stringify(want)}, in ${JSON.stringify(got)}`,
    )
  }
}

async function run(c, front) {
  const options = servers[c.server ?? 'main']
  const server = await start(options)
  const clients = {}
  for (const name of ['resp', 'http']) {
    clients[name] = new Weir({ url: server.url(name), ...settings(c, server, options) })
    clients[name].on('down', () => {})
  }
  try {
    const saved = new Map()
    for (const s of c.steps) {
      const weir = clients[s.front ?? front]
      if (s.fault) {
        await server.fault(s.fault)
      } else if (s.until) {
        while (
          !(await check(weir, s.until, saved).then(
            () => true,
            () => false,
          ))
        );
      } else if (s.parallel) {
        const begun = performance.now()
        const all = await Promise.all(
          Array.from({ length: s.parallel }, () => call(weir, s, saved)),
        )
        const elapsed = performance.now() - begun
        assert.equal(all.filter((d) => d.allowed).length, s.want_allowed)
        if (s.want) assert(matches(elapsed, s.want.elapsed_ms), `the calls took ${elapsed} ms`)
      } else {
        await check(weir, s, saved)
      }
    }
  } finally {
    for (const name of ['resp', 'http']) clients[name].close()
    await server.stop()
  }
}

describe('shared cases', { concurrency: 8 }, () => {
  for (const c of cases) {
    for (const front of c.fronts ?? ['resp', 'http']) {
      it(`${c.name}, over ${front}`, () => run(c, front))
    }
  }
})
