// The client where the shared cases do not reach: its options, its outages, its connection.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHTTPServer } from 'node:http'
import { createServer } from 'node:net'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Weir, WeirError } from '../index.mjs'
import { newWeir, printed } from './web.mjs'

const require = createRequire(import.meta.url)
const { Reader } = require('../lib/resp.js')
const policies =
  'version: 1\npolicies:\n  five: {limit: 5 per minute per user}\n  many: {limit: 1000000 per minute per user}\n  model: {limit: 1000 tokens per minute per tenant}\n  brief: {limit: "1 at once per user, for at most 200ms"}'
const ann = { user: 'ann' }

test('options that are wrong are named', () => {
  const url = 'redis://127.0.0.1:1'
  for (const [options, text] of [
    [
      undefined,
      /url is missing; pass it, or set WEIR_URL, to the address of weir serve --resp-listen/,
    ],
    [
      { url: '127.0.0.1:7073' },
      /the url "127.0.0.1:7073" is no address; write redis:\/\/host:port/,
    ],
    [{ url: 'http://127.0.0.1:7070/v1' }, /without a path/],
    [{ url: 'postgres://127.0.0.1' }, /is no address/],
    [{ url: 'unix:' }, /has no path/],
    [{ url, timout: 5 }, /no option "timout"; there are timeout, totalTimeout/],
    [{ url, timeout: 0 }, /timeout must be a whole number, 1 to 600000, not 0/],
    [{ url, retries: 1.5 }, /retries must be a whole number/],
    [{ url, whenDown: 'share' }, /whenDown must be "deny" or "allow", not "share"/],
    [{ url, token: '' }, /token must be text/],
    [{ url, token: 'read-from-a-file\n' }, /is it read with its newline\?/],
    [{ url, timeout: 5n }, /timeout must be a whole number, 1 to 600000, not 5n/],
    [{ url: 'redis://:%zz@127.0.0.1' }, /is no address/],
    [{ url: 'redis://:s3cr/et@127.0.0.1' }, /the url "redis:\/\/…@127.0.0.1" .* \/ as %2F/],
    [{ url: 'http://:s3c:r#et@127.0.0.1' }, /the url "http:\/\/…@127.0.0.1" is no address/],
    [{ url: 'redis://s3cret@127.0.0.1' }, /the password is the token, as in redis:\/\/:TOKEN@127/],
    [{ url: 'redis://:%E5%BC%A0@127.0.0.1' }, /token must be text of printable ASCII/],
    [{ url, tls: {} }, /tls has no effect with redis:\/\/127.0.0.1:1; write rediss:/],
    [{ url: 'unix:/run/weir.sock', tls: {} }, /tls has no effect with unix:/],
    [{ url: 'rediss://127.0.0.1', tls: 'ca.pem' }, /tls has options of TLS, such as \{ ca \}/],
  ]) {
    assert.throws(
      () => new Weir(options),
      (err) =>
        err instanceof WeirError &&
        err.kind === 'input' &&
        text.test(err.message) &&
        !/s3c/.test(err.message),
      String(text),
    )
  }
  const weir = new Weir(url)
  for (const call of [
    () => weir.limit(''),
    () => weir.limit([]),
    () => weir.limit(5),
    () => weir.limit('1 per minute', 'login'),
    () => weir.limit('1 per minute', { name: 5 }),
    () => weir.policy(''),
    () => weir.policy(),
    () => weir.reservation(),
  ]) {
    assert.throws(call, (err) => err.kind === 'input')
  }
  for (const call of [
    () => weir.limit('1 per minute per \ud800'),
    () => weir.limit('1 per minute', { name: '\udfff' }),
    () => weir.policy('\ud800'),
    () => weir.reservation('\ud800'),
  ]) {
    assert.throws(call, /is no valid Unicode \(a surrogate stands alone\)/)
  }
})

test('bad input is rejected before a connection', async () => {
  const five = new Weir('redis://127.0.0.1:1').policy('five')
  for (const [call, text] of [
    [five.take('ann'), /a key is an object with a value for each dimension/],
    [five.take(null), /a key is an object/],
    [five.take(['ann']), /a key is an object/],
    [five.take({ 'user=ann': 'x' }), /"user=ann" is no name of a dimension/],
    [five.take({ '': 'x' }), /"" is no name of a dimension/],
    [five.take({ user: '\ud800' }), /the value of "user" is no valid Unicode/],
    [five.take(ann, 3), /options are an object, such as \{ n: … \}, not 3/],
    [five.take(ann, { units: 3 }), /no option "units"; this call has n, id/],
    [five.take(ann, { n: NaN }), /n must be a whole number, 0 to 2251799813685247, not NaN/],
    [five.take(ann, { n: 2n }), /n must be a whole number, .*, not 2n/],
    [five.take(ann, { n: { a: 1 } }), /n must be a whole number, .*, not \{ a: 1 \}/],
    [five.reserve(ann, { n: 0 }), /n must be a whole number, 1 to 2251799813685247, not 0/],
    [five.refund(ann), /the instant of the grant must be a whole number/],
    [five.refund(ann, 1.5), /the instant of the grant must be a whole number/],
    [five.block(ann), /the time of a block must be a whole number of milliseconds/],
    [five.block(ann, -1), /the time of a block must be a whole number of milliseconds/],
    [five.reset(ann, { limits: 'user' }), /limits is a list of names of limits, not "user"/],
    [five.count(ann, 1000, { limit: 5 }), /limits is a list of names of limits/],
    [five.take(ann, { id: '\ud800' }), /the id is no valid Unicode/],
    [five.reset(ann, { limits: ['\ud800'] }), /a name is no valid Unicode/],
    [five.wait(ann, { signal: 5 }), /signal is an AbortSignal, .*, not 5/],
    [five.reserve(ann, { signal: {} }), /signal is an AbortSignal, .*, not \{\}/],
  ]) {
    await assert.rejects(call, (err) => err.kind === 'input' && text.test(err.message), `${text}`)
  }
})

test('calls of one turn share a connection and a write', async (t) => {
  const { weir } = await newWeir(t, { policies })
  const many = weir.policy('many')
  await many.take(ann)
  const { socket } = weir.front.connection
  const written = t.mock.method(socket, 'write')
  await Promise.all(Array.from({ length: 100 }, () => many.take(ann)))
  assert.equal(weir.front.connection.socket, socket)
  assert.equal(written.mock.callCount(), 1)
})

test('an outage is an event at its beginning and at its end', async (t) => {
  const { server, weir } = await newWeir(t, {
    policies,
    client: { timeout: 500, totalTimeout: 1000, breaker: 0 },
  })
  const events = []
  weir.on('down', (err) => events.push(err.kind)).on('up', () => events.push('up'))
  const five = weir.policy('five')
  await five.take(ann)
  await server.fault({ kind: 'refuse' })
  for (let i = 0; i < 3; i++) assert.equal((await five.take(ann)).error.kind, 'unavailable')
  await server.fault({ kind: 'none' })
  while ((await five.take(ann)).degraded);
  assert.deepEqual(events, ['unavailable', 'up'])
})

test('without a listener an outage is a line on standard error', async (t) => {
  const lines = printed(t, 'error')
  const { server, weir } = await newWeir(t, { policies, client: { whenDown: 'allow' } })
  const five = weir.policy('five')
  await server.fault({ kind: 'refuse' })
  await five.take(ann)
  await five.take(ann)
  await server.fault({ kind: 'none' })
  while ((await five.take(ann)).degraded);
  assert.equal(lines.length, 2, lines)
  assert.match(
    lines[0],
    /^weir: no connection to redis:\/\/127.*ECONNREFUSED.*; until it is back attempts are allowed$/,
  )
  assert.equal(lines[1], 'weir: decides again')
})

test('after some failures calls are decided immediately, and a probe ends it', async (t) => {
  const { server, weir } = await newWeir(t, {
    policies,
    client: { timeout: 100, totalTimeout: 300, retries: 0, breaker: 2 },
  })
  weir.on('down', () => {})
  const five = weir.policy('five')
  while ((await five.take(ann)).degraded); // a busy machine is slow
  await server.fault({ kind: 'silence' })
  for (let i = 0; i < 2; i++)
    assert.match((await five.take(ann)).error.message, /no answer of weir within|is silent/)
  const sent = t.mock.method(weir.front, 'send')
  let d
  for (let tries = 0; tries < 10; tries++) {
    sent.mock.resetCalls()
    d = await five.take(ann)
    if (sent.mock.callCount() === 0) break // otherwise a busy machine was late, so it was a probe
  }
  assert.match(d.error.message, /^weir is away: /)
  assert.equal(d.retryAfterMs, 1000)
  assert.equal(sent.mock.callCount(), 0)
  await server.fault({ kind: 'none' })
  while ((await five.take(ann)).degraded);
  assert.equal(weir.breaker.isOpen(), false)
})

test('an error of weir shows that it is back', async (t) => {
  const { server, weir } = await newWeir(t, { policies, client: { retries: 0, breaker: 1 } })
  const events = []
  weir.on('down', () => events.push('down')).on('up', () => events.push('up'))
  await server.fault({ kind: 'refuse' })
  assert.equal((await weir.policy('five').take(ann)).degraded, true)
  assert.equal(weir.breaker.isOpen(), true)
  await server.fault({ kind: 'none' })
  const answers = async () => {
    try {
      return !(await weir.policy('fvie').take(ann)).degraded
    } catch (err) {
      assert.equal(err.kind, 'input')
      return true
    }
  }
  while (!(await answers()));
  assert.equal(weir.breaker.isOpen(), false)
  assert.deepEqual(events, ['down', 'up'])
})

test('silence lasts no longer than the timeouts', async (t) => {
  for (const front of ['resp', 'http']) {
    const { server } = await newWeir(t, { policies })
    await server.fault({ kind: 'silence' })
    for (const [retries, most] of [
      [0, 200],
      [9, 500],
    ]) {
      const weir = new Weir({
        url: server.url(front),
        timeout: 200,
        totalTimeout: 500,
        retries,
        breaker: 0,
      })
      weir.on('down', () => {})
      const times = []
      const isLate = () => !(Math.min(...times) <= most * 1.1)
      while (times.length < 10 && isLate()) {
        // a busy machine is late
        const begun = performance.now()
        assert.equal((await weir.policy('five').take(ann)).degraded, true)
        times.push(performance.now() - begun)
      }
      weir.close()
      const isEarly = Math.min(...times) < 200 * 0.9 // a retry may not fit the rest of the time
      assert(!isEarly && !isLate(), `${front}: ${times} of ${most} ms`)
    }
  }
})

test('an outage is no reason to refund', async (t) => {
  const { server, weir } = await newWeir(t, {
    policies,
    client: { timeout: 200, totalTimeout: 400, whenDown: 'allow' },
  })
  weir.on('down', () => {})
  const five = weir.policy('five')
  await server.fault({ kind: 'refuse' })
  const d = await five.take(ann)
  assert.equal(d.allowed, true)
  assert.equal(await five.refund(ann, d), 0)
})

test('the end of a client is no outage', async (t) => {
  const lines = printed(t, 'error')
  for (const front of ['resp', 'http']) {
    const { server, weir } = await newWeir(t, { policies, front })
    await weir.policy('five').take({ user: front })
    await server.fault({ kind: 'silence' })
    const waiting = weir.policy('five').take({ user: front })
    await new Promise(setImmediate)
    weir.close()
    assert.equal((await waiting).degraded, true)
  }
  assert.deepEqual(lines, [])
})

test('a key and limits that change after the call are sent as they were', async (t) => {
  for (const front of ['resp', 'http']) {
    const { server, weir } = await newWeir(t, { policies, front })
    const five = weir.policy('five')
    await five.take({ user: 'carl' })
    const key = { user: 'ann' }
    await server.fault({ kind: 'cut_request' })
    const lost = five.take(key)
    key.user = 'bob'
    assert.equal((await lost).remaining, 4)
    assert.equal((await five.peek({ user: 'ann' })).remaining, 4, front)
    assert.equal((await five.peek({ user: 'bob' })).remaining, 5, front)
    const limits = ['5 per minute per user']
    const limiter = weir.limit(limits)
    limits[0] = '7 per minute per user'
    assert.equal((await limiter.take(ann)).remaining, 4)
  }
})

test('a lost connection with many calls opens no breaker', async (t) => {
  for (const front of ['resp', 'http']) {
    const { server, weir } = await newWeir(t, { policies, front, client: { breaker: 5 } })
    const many = weir.policy('many')
    await Promise.all(Array.from({ length: 50 }, () => many.take(ann)))
    await server.fault({ kind: 'mirror' }) // resets all connections
    const all = await Promise.all(Array.from({ length: 50 }, () => many.take(ann)))
    assert.equal(all.filter((d) => d.degraded).length, 0, front)
    assert.equal((await many.peek(ann)).remaining, 1000000 - 100)
  }
})

test('a store that is away opens no breaker, because weir still decides other policies', async (t) => {
  const policies =
    'version: 1\npolicies:\n  strict: {limit: 5 per minute per user}\n  lenient: {limit: 5 per minute per user, when-store-is-down: allow}'
  const { weir } = await newWeir(t, {
    policies,
    flags: ['--store', 'redis://127.0.0.1:1'],
    client: { breaker: 2, retries: 0 },
  })
  weir.on('down', () => {})
  for (let i = 0; i < 5; i++)
    assert.equal((await weir.policy('strict').take(ann)).error.answered, true)
  const d = await weir.policy('lenient').take(ann)
  assert.deepEqual([d.allowed, d.degraded, d.error], [true, true, undefined])
})

test('the number of calls that wait is bounded', async (t) => {
  const { server, weir } = await newWeir(t, { policies, client: { maxPending: 10 } })
  weir.on('down', () => {})
  const many = weir.policy('many')
  await many.take(ann)
  await server.fault({ kind: 'silence' })
  const all = Array.from({ length: 15 }, () => many.take(ann))
  const denied = await Promise.all(all.slice(10))
  assert(denied.every((d) => /10 calls wait for weir; that is maxPending/.test(d.error.message)))
  await server.fault({ kind: 'none' })
  assert((await Promise.all(all.slice(0, 10))).every((d) => d.allowed && !d.degraded))
})

test('a reservation without weir lives in the process', async (t) => {
  const { server, weir } = await newWeir(t, {
    policies,
    client: { timeout: 200, totalTimeout: 400, whenDown: 'allow' },
  })
  weir.on('down', () => {})
  await server.fault({ kind: 'refuse' })
  const r = await weir.policy('model').reserve({ tenant: 'acme' }, { n: 600 })
  assert.equal(r.allowed, true)
  assert.equal(r.id, undefined)
  assert.equal((await r.add(100)).units, 700)
  assert.deepEqual(await r.settle(250), { reserved: 700, actual: 250, refunded: 0, recorded: 0 })
})

test('a reservation is settled at the end of its block', async (t) => {
  const { weir } = await newWeir(t, { policies })
  const model = weir.policy('model')
  const tenant = { tenant: 'acme' }
  const dispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')
  const open = await model.reserve(tenant, { n: 600 })
  assert(open.expiresAt > new Date())
  await open[dispose]()
  await assert.rejects(open.settle(1), (err) => err.kind === 'settled')
  const settled = await model.reserve(tenant, { n: 300 })
  await settled.settle(100)
  await settled[dispose]()
  const denied = await model.reserve(tenant, { n: 600 })
  assert.equal(denied.allowed, false)
  const brief = await weir.policy('brief').reserve(ann)
  while (!(await weir.policy('brief').peek(ann)).allowed);
  await assert.rejects(brief.done(), (err) => err.kind === 'expired')
  await brief[dispose]() // a hold that has ended needs no end
  await denied[dispose]()
  await assert.rejects(denied.settle(1), /the reservation was denied/)
  await assert.rejects(denied.add(1), /the reservation was denied/)
  assert.equal((await model.peek(tenant)).remaining, 300)
})

test('another process settles a reservation by its id', async (t) => {
  const { weir } = await newWeir(t, { policies })
  const model = weir.policy('model')
  const { id } = await model.reserve({ tenant: 'acme' }, { n: 600 })
  const other = weir.reservation(id)
  assert.equal((await other.add(100)).units, 700)
  assert.equal((await other.settle(50)).refunded, 100)
  await assert.rejects(weir.reservation('nonsense').done(), (err) => err.kind === 'input')
})

test('calls after close fail', async (t) => {
  const { weir } = await newWeir(t, { policies })
  weir.close()
  await assert.rejects(weir.policy('five').take(ann), /the client is closed/)
})

// answering returns the address of a server that is no weir.
async function answering(t, server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return `127.0.0.1:${server.address().port}`
}

test('a server that is no weir is named, also where outages allow', async (t) => {
  const { server: weir } = await newWeir(t, { policies })
  const says = (text) =>
    createServer((socket) => socket.on('error', () => {}).on('data', () => socket.write(text)))
  const page = (status, text = '<html>Hello</html>') =>
    createHTTPServer((request, response) => {
      response.statusCode = status
      response.end(text)
    })
  for (const [url, text] of [
    [`redis://${weir.direct.http}`, /this listener speaks HTTP: write http:\/\//],
    [`http://${weir.direct.resp}`, /give the address of weir serve --listen/],
    [
      `redis://${await answering(t, says("-ERR unknown command 'WEIR.CHECK', with args beginning with: 'five'\r\n"))}`,
      /is a Redis, no weir; give the address of weir serve --resp-listen/,
    ],
    [
      `redis://${await answering(t, says('-ERR unknown command WEIR.CHECK; Its commands are WEIR.X\r\n'))}`,
      /is of another version, .*; use weirlimit and weir of the same version/,
    ],
    [
      `redis://${await answering(t, says('*2\r\n:1\r\n:1\r\n'))}`,
      /\[1,1\] of redis:.*is no answer of weir.*of the version of this package/,
    ],
    [`redis://${await answering(t, says('+OK\r\n'))}`, /is no answer of weir/],
    [`redis://${await answering(t, says('$-1\r\n'))}`, /null of redis:.* is no answer of weir/],
    [`redis://${await answering(t, says('*-1\r\n'))}`, /null of redis:.* is no answer of weir/],
    [
      `http://${await answering(t, page(200))}`,
      /"<html>Hello<\/html>" of http:.*is no answer of weir/,
    ],
    [`http://${await answering(t, page(404))}`, /404 .*is no answer of weir/],
    [
      `http://${await answering(t, page(200, '{"allowed":true,"remaining":1}'))}`,
      /is no answer of/,
    ],
    [
      `redis://${await answering(t, says('*9\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n$0\r\n\r\n:1\r\n:0\r\n:0\r\n'))}`,
      /is no answer of weir.*of the version of this package/, // without the element of an id
    ],
    [`https://${weir.direct.http}`, /no TLS connection to https:/],
    [`rediss://${weir.direct.resp}`, /no TLS connection to rediss:/],
  ]) {
    const client = new Weir({ url, whenDown: 'allow', timeout: 20_000, totalTimeout: 40_000 })
    await assert.rejects(
      client.policy('five').take(ann),
      (err) => err.kind === 'protocol' && text.test(err.message),
      `${url} ${text}`,
    )
    client.close()
  }
})

test('a proxy without weir behind it is an outage, whatever it answers', async (t) => {
  for (const [status, text] of [
    [502, '<html>Bad Gateway</html>'],
    [503, '{"message": "no healthy upstream"}'],
    [504, ''],
  ]) {
    const url = `http://${await answering(
      t,
      createHTTPServer((request, response) => {
        response.statusCode = status
        response.end(text)
      }),
    )}`
    const weir = new Weir({ url, whenDown: 'allow', timeout: 20_000, totalTimeout: 40_000 })
    weir.on('down', () => {})
    const d = await weir.policy('five').take(ann)
    assert.equal(d.allowed, true)
    assert.match(d.error.message, new RegExp(`answers with status ${status}`))
    weir.close()
  }
})

test('options of TLS that are broken are an error of the call, and end no process', async (t) => {
  for (const scheme of ['rediss', 'https']) {
    const url = `${scheme}://${await answering(t, createServer())}`
    const client = { whenDown: 'allow', timeout: 100, retries: 0 }
    const weir = new Weir({ url, tls: { cert: 'none', key: 'none' }, ...client })
    for (let i = 0; i < 2; i++) {
      await assert.rejects(
        weir.policy('five').take(ann),
        (err) => err instanceof WeirError && err.kind !== 'unavailable' && /tls/.test(err.message),
      )
    }
    await new Promise((resolve) => setTimeout(resolve, 200)) // until the timeout of the calls
    weir.close()
  }
})

test('a server that uses TLS is named', async (t) => {
  const { server } = await newWeir(t, { policies, tls: true, token: 'the-token-of-the-tests' })
  for (const [front, scheme] of [
    ['resp', 'rediss'],
    ['http', 'https'],
  ]) {
    const client = new Weir({
      url: server.url(front).replace(scheme, scheme.slice(0, -1)),
      whenDown: 'allow',
      timeout: 20_000,
      totalTimeout: 40_000,
    })
    await assert.rejects(
      client.policy('five').take(ann),
      (err) =>
        err.kind !== 'unavailable' &&
        new RegExp(`this listener uses TLS[;:] write ${scheme}://`).test(err.message),
    )
    client.close()
  }
})

test('a certificate that is not trusted is named', async (t) => {
  const { server } = await newWeir(t, { policies, tls: true, token: 'the-token-of-the-tests' })
  for (const front of ['resp', 'http']) {
    const client = new Weir({
      url: server.url(front),
      token: 'x',
      whenDown: 'allow',
      timeout: 20_000,
      totalTimeout: 40_000,
    })
    await assert.rejects(
      client.policy('five').take(ann),
      /SELF_SIGNED.*pass its authority as tls: \{ ca \}/s,
    )
    client.close()
  }
})

test('the token may stand in the address', async (t) => {
  const { server } = await newWeir(t, { policies, token: 'the-token-of-the-tests' })
  for (const front of ['resp', 'http']) {
    const url = server.url(front).replace('://', '://:the-token-of-the-tests@')
    const client = new Weir({ url, timeout: 20_000, totalTimeout: 40_000 })
    assert.equal((await client.policy('five').take({ user: front })).allowed, true)
    client.close()
  }
})

test('a client keeps no process alive', async (t) => {
  const { server } = await newWeir(t, { policies })
  for (const front of ['resp', 'http']) {
    const script = `import { Weir } from ${JSON.stringify(new URL('../index.mjs', import.meta.url))}
      const d = await new Weir({ url: ${JSON.stringify(server.url(front))}, timeout: 20000, totalTimeout: 40000 }).policy('five').take({ user: 'bob' })
      console.log(d.allowed)`
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', script],
      { timeout: 60_000 },
    )
    assert.equal(stdout, 'true\n')
  }
})

test('replies are read in pieces of any size', () => {
  const text = Buffer.from(
    '*4\r\n:1\r\n$6\r\nhöhe\r\n\r\n:-15\r\n*0\r\n+OK\r\n-ERR no\r\n'.replace('höhe\r\n', 'höhe\n'),
    'utf8',
  )
  for (let size = 1; size <= text.length; size++) {
    const reader = new Reader()
    const replies = []
    for (let at = 0; at < text.length; at += size) {
      reader.add(text.subarray(at, at + size))
      for (let reply; (reply = reader.next()) !== undefined;) replies.push(reply)
    }
    assert.deepEqual(replies.slice(0, 2), [[1, 'höhe\n', -15, []], 'OK'], `pieces of ${size}`)
    assert.deepEqual({ ...replies[2] }, { code: 'ERR', text: 'no' })
  }
  const reader = new Reader()
  reader.add(Buffer.from('$-1\r\n*-1\r\n:7\r\n'))
  assert.deepEqual([reader.next(), reader.next(), reader.next()], [null, null, 7])
  const numbers = [':1x\r\n', ':\r\n', ':-\r\n', ':+1\r\n']
  const sizes = ['*9999\r\n', '$x\r\n', '$99999999\r\n', '$-2\r\n', '*-2\r\n', '$\r\n']
  for (const wrong of ['HTTP/1.1 400', ...numbers, ...sizes]) {
    const reader = new Reader()
    reader.add(Buffer.from(wrong))
    assert.throws(() => reader.next(), wrong)
  }
})
