// The middleware and the store, with the real express and express-rate-limit.
import assert from 'node:assert/strict'
import http from 'node:http'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { Weir } from '../index.mjs'
import { WeirStore, ipKeyGenerator, rateLimit } from '../express.mjs'
import { modules } from './stand.mjs'
import { express, newWeir, printed, serve, statuses } from './web.mjs'

const erl = modules('express-rate-limit')
const policies =
  'version: 1\npolicies:\n  web: {limit: 2 per minute per ip}\n  seat: {limit: 1 per minute per tenant per user}'

test('the middleware denies the third of two', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  app.use(rateLimit({ weir, limit: '2 per minute per ip', standardHeaders: 'draft-8' }))
  app.get('/', (req, res) => res.json(req.rateLimit.remaining))
  const get = await serve(t, app)
  assert.equal((await get()).body, '1')
  assert.equal((await get()).status, 200)
  const denied = await get()
  assert.equal(denied.status, 429)
  assert.equal(denied.body, 'Too many requests, please try again later.')
  assert.match(denied.fields.get('retry-after'), /^(5\d|60)$/)
  assert.equal(denied.fields.get('x-ratelimit-limit'), '2')
  assert.equal(denied.fields.get('x-ratelimit-remaining'), '0')
  assert.match(denied.fields.get('ratelimit'), /^"2-in-1min"; r=0; t=(5\d|60)$/)
  assert.match(denied.fields.get('ratelimit-policy'), /^"2-in-1min"; q=2; w=60; pk=:\w+:$/)
})

test('the fields are those of express-rate-limit', async (t) => {
  const { weir } = await newWeir(t)
  const draft8 = { standardHeaders: 'draft-8', limit: 1 }
  const variants = [
    { standardHeaders: 'draft-6', legacyHeaders: true, limit: 1 },
    { standardHeaders: 'draft-7', limit: 1 },
    { standardHeaders: true, headers: false, max: 1 },
    { standardHeaders: false, legacyHeaders: true, limit: 1 },
    { standardHeaders: 'draft-8', max: 1, retryAfter: 7 },
    { ...draft8, identifier: 'web', retryAfter: async () => 8 },
    { ...draft8, identifier: (req) => req.path.length + '-letters', legacyHeaders: undefined },
    { ...draft8, windowMs: 90_000 },
    { ...draft8, windowMs: 5_400_000 },
    { ...draft8, windowMs: 172_800_000 },
  ]
  for (const [i, options] of variants.entries()) {
    const app = express()
    const key = `key ${i}`
    const all = { windowMs: 60_000, statusCode: 420, keyGenerator: () => key, ...options }
    app.get('/ours--', rateLimit({ ...all, weir }), (req, res) => res.send('ok'))
    const store = new WeirStore({ weir, name: `theirs-${i}` })
    app.get('/theirs', erl.rateLimit({ ...all, store }), (req, res) => res.send('ok'))
    const get = await serve(t, app)
    for (let i = 0; i < 2; i++) {
      const [ours, theirs] = [await get('/ours--'), await get('/theirs')]
      assert.equal(ours.status, theirs.status)
      assert.equal(ours.body, theirs.body)
      const names = (answer) => [...answer.fields.keys()].sort()
      assert.deepEqual(names(ours), names(theirs), JSON.stringify(options))
      const isWindow = (n) => Math.abs(n - all.windowMs / 1000) <= 10 // a busy machine is slow
      const round = (text) =>
        text
          .replace(/^\d{10}$/, 'instant')
          .replaceAll(/\b\d+\b/g, (n) => (isWindow(n) ? 'window' : n))
      for (const name of names(ours).filter((name) => /ratelimit|retry/.test(name))) {
        assert.equal(round(ours.fields.get(name)), round(theirs.fields.get(name)), name)
      }
    }
  }
})

test('the options of express-rate-limit keep their meaning', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  const ok = (req, res) => res.send('ok')
  const one = (options) =>
    rateLimit({
      weir,
      limit: '1 per minute per user',
      keyGenerator: (req) => req.get('user'),
      ...options,
    })
  app.get('/skip', one({ name: 'skip', skip: (req) => req.get('user') === 'root' }), ok)
  app.get(
    '/handler',
    one({ name: 'handler', handler: (req, res) => res.status(418).send('tea') }),
    ok,
  )
  app.get(
    '/message',
    one({ name: 'message', message: async () => ({ error: 'slow' }), requestPropertyName: 'rate' }),
    (req, res) => res.send(req.rate.key),
  )
  app.get('/failed', one({ name: 'failed', skipFailedRequests: true }), (req, res) =>
    res.status(req.get('user') === 'bad' ? 500 : 200).send('ok'),
  )
  app.get('/succeeded', one({ name: 'succeeded', skipSuccessfulRequests: true }), ok)
  app.get(
    '/successful',
    one({ name: 'successful', skipSuccessfulRequests: true, requestWasSuccessful: () => false }),
    ok,
  )
  app.get(
    '/object',
    rateLimit({
      weir,
      limit: '1 per minute per tenant per user',
      name: 'object',
      keyGenerator: (req) => ({ tenant: 'acme', user: req.get('user') }),
    }),
    ok,
  )
  const reset = one({ name: 'reset' })
  app.get('/reset', reset, ok)
  app.get('/network', rateLimit({ weir, limit: 1, ipv6Subnet: async () => 48 }), ok)
  const get = await serve(t, app)
  const both = async (path, user) => await statuses(get, 2, path, { user })
  assert.equal(await both('/skip', 'root'), '200 200')
  assert.equal(await both('/skip', 'ann'), '200 429')
  assert.equal(await both('/handler', 'ann'), '200 418')
  assert.equal((await get('/message', { user: 'ann' })).body, 'ann')
  assert.equal((await get('/message', { user: 'ann' })).body, '{"error":"slow"}')
  assert.equal(await both('/failed', 'ann'), '200 429')
  assert.equal(await both('/object', 'ann'), '200 429')
  assert.equal(await both('/object', 'bob'), '200 429')
  assert.equal(await both('/successful', 'ann'), '200 429')
  assert.equal(await both('/reset', 'ann'), '200 429')
  assert.equal((await reset.getKey('ann')).totalHits, 1)
  assert.equal(await reset.getKey('bob'), undefined)
  await reset.resetKey({ user: 'ann' })
  assert.equal(await both('/reset', 'ann'), '200 429')
  await reset.resetKey('ann')
  assert.equal(await both('/reset', 'ann'), '200 429')
  assert.equal(await both('/network', 'ann'), '200 429')
  for (const [path, user, status] of [
    ['/failed', 'bad', 500],
    ['/succeeded', 'ann', 200],
  ]) {
    for (let i = 0; i < 3; i++) {
      assert.equal((await get(path, { user })).status, status, path)
      await until(
        async () =>
          (await weir.limit('1 per minute per user', { name: path.slice(1) }).peek({ user }))
            .remaining === 1,
      )
    }
  }
})

// leave sends a request and ends its connection as the application has begun with it.
async function leave(get, path, begun) {
  const request = http.get(get.origin + path)
  request.on('error', () => {})
  await begun
  request.destroy()
}

test('a request that its client leaves is counted back, unless its answer was made', async (t) => {
  const { server, weir } = await newWeir(t)
  const app = express()
  const limited = (name) =>
    rateLimit({ weir, name, limit: '1 per minute per ip', skipFailedRequests: true })
  const left = async (name) =>
    (await weir.limit('1 per minute per ip', { name }).peek({ ip: '127.0.0.1' })).remaining
  let begin, close
  const begun = () => new Promise((resolve) => (begin = resolve))
  const closed = () => new Promise((resolve) => (close = resolve))
  app.use((req, res, next) => {
    res.once('close', () => close())
    next()
  })
  app.get('/open', limited('open'), () => begin())
  app.get('/made', limited('made'), (req, res) => {
    res.end('x'.repeat(50_000_000))
    begin()
  })
  const early = (req, res, next) => {
    begin()
    next()
  }
  app.get('/early', early, limited('early'), (req, res) => res.send('ok'))
  const get = await serve(t, app)
  const leaves = (path) => Promise.all([closed(), leave(get, path, begun())])
  await leaves('/open')
  await until(async () => (await left('open')) === 1)
  await leaves('/made')
  await server.fault({ kind: 'silence' })
  await leaves('/early')
  await server.fault({ kind: 'none' })
  await until(async () => (await left('early')) === 1)
  assert.equal(await left('made'), 0)
})

test('an application without settings of Express is limited, too', async (t) => {
  const { weir } = await newWeir(t)
  const limited = rateLimit({ weir, limit: 1, statusCode: 429 })
  const get = await serve(t, (req, res) => {
    req.ip = '192.0.2.7'
    res.status = (code) => Object.assign(res, { statusCode: code })
    res.send = (text) => res.end(text)
    limited(req, res, (err) => res.end(err ? err.stack : 'ok'))
  })
  assert.equal((await get()).body, 'ok')
  assert.equal((await get()).status, 429)
})

// until repeats a check until it is true: a request is counted back after its answer.
async function until(check) {
  while (!(await check()));
}

test('limits are numbers, texts, or made for each request', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  const ok = (req, res) => res.send('ok')
  app.get('/number', rateLimit({ weir, windowMs: 60_000, limit: 2 }), ok)
  app.get('/default', rateLimit({ weir, name: 'default' }), ok)
  app.get('/several', rateLimit({ weir, limit: ['9 per hour per ip', '2 per minute'] }), ok)
  const plans = { free: 1, pro: '3 per minute per key' }
  app.get(
    '/made',
    rateLimit({
      weir,
      name: 'made',
      limit: async (req) => plans[req.get('plan')],
      keyGenerator: (req) => req.get('user'),
    }),
    ok,
  )
  const get = await serve(t, app)
  assert.equal(await statuses(get, 3, '/number'), '200 200 429')
  assert.equal(await statuses(get, 6, '/default'), '200 200 200 200 200 429')
  assert.equal(await statuses(get, 3, '/several'), '200 200 429')
  assert.equal(await statuses(get, 2, '/made', { plan: 'free', user: 'ann' }), '200 429')
  assert.equal(await statuses(get, 4, '/made', { plan: 'pro', user: 'bob' }), '200 200 200 429')
  assert.equal(
    (
      await weir
        .limit('2 per 60000ms per key', { name: 'express-2-per-60000ms' })
        .peek({ key: '127.0.0.1' })
    ).remaining,
    0,
  )
})

test('a policy of the file', async (t) => {
  const { weir } = await newWeir(t, { policies, flags: [] })
  const app = express()
  app.get('/', rateLimit({ weir, policy: 'web' }), (req, res) => res.send('ok'))
  app.get(
    '/seat',
    rateLimit({ weir, policy: 'seat', keyGenerator: () => ({ tenant: 'acme', user: 'ann' }) }),
    (req, res) => res.send('ok'),
  )
  const get = await serve(t, app)
  assert.equal(await statuses(get, 3), '200 200 429')
  assert.equal(await statuses(get, 2, '/seat'), '200 429')
})

test('without weir the middleware denies with 503, or lets pass', async (t) => {
  printed(t, 'error')
  for (const [options, want] of [
    [{}, 503],
    [{ whenDown: 'allow' }, 200],
    [{ passOnStoreError: true }, 200],
  ]) {
    const { passOnStoreError, ...client } = options
    const { server, weir } = await newWeir(t, {
      client: { timeout: 200, totalTimeout: 400, ...client },
    })
    const app = express()
    app.get('/', rateLimit({ weir, limit: '1 per minute per ip', passOnStoreError }), (req, res) =>
      res.send('ok'),
    )
    const get = await serve(t, app)
    await server.fault({ kind: 'refuse' })
    assert.equal(await statuses(get, 2), `${want} ${want}`)
  }
})

test('a wrong call is an error of the application, not a pass', async (t) => {
  printed(t, 'error')
  const { weir } = await newWeir(t, { policies, flags: [], client: { whenDown: 'allow' } })
  const app = express()
  app.get('/policy', rateLimit({ weir, policy: 'wbe' }), (req, res) => res.send('ok'))
  app.get('/inline', rateLimit({ weir, limit: '1 per minute per ip' }), (req, res) =>
    res.send('ok'),
  )
  app.get('/key', rateLimit({ weir, policy: 'web', keyGenerator: () => undefined }), (req, res) =>
    res.send('ok'),
  )
  app.get('/two', rateLimit({ weir, limit: '1 per minute per tenant per user' }), (req, res) =>
    res.send('ok'),
  )
  app.use((err, req, res, next) => res.status(500).send(err.message))
  const get = await serve(t, app)
  assert.match((await get('/policy')).body, /no policy "wbe"; did you mean "web"\?/)
  assert.match((await get('/inline')).body, /--inline-policies/)
  assert.equal(
    (await get('/key')).body,
    'the value of "ip" is no text; pass text, such as an id in digits',
  )
  assert.match((await get('/two')).body, /count by tenant, user; return an object/)
})

test('options that are wrong are named', () => {
  const weir = new Weir({ url: 'redis://127.0.0.1:1' })
  assert.throws(
    () => rateLimit({ weir, limit: '1 per minute', policy: 'web' }),
    /limit or policy, not both/,
  )
  assert.throws(
    () => rateLimit({ weir, limit: '1 per minute', store: {} }),
    /no option "store" beside weir; there are limit, policy/,
  )
  assert.throws(() => rateLimit({ weir, limit: '' }), /a limit is text/)
  for (const [option, text] of [
    [{ ipv6Subnet: 0 }, /ipv6Subnet must be a whole number, 32 to 64, or false, not 0/],
    [{ ipv6Subnet: '64' }, /ipv6Subnet must be a whole number, .*, not "64"/],
    [{ standardHeaders: 'draft-9' }, /standardHeaders must be true, .*, not "draft-9"/],
    [{ windowMs: '15m' }, /windowMs must be a whole number, 1 to 34560000000, not "15m"/],
    [{ limit: 1.5 }, /limit must be a whole number, 0 to 2251799813685247, not 1.5/],
    [{ max: -1 }, /limit must be a whole number, .*, not -1/],
    [{ max: 1, policy: 'web' }, /limit or policy, not both/],
  ]) {
    assert.throws(() => rateLimit({ weir, ...option }), text)
  }
  assert.throws(
    () => rateLimit({ url: 'redis://127.0.0.1:1', windowMS: 5 }),
    /no option "windowMS"; there are limit, .*max, .*windowMs, .*, url, token, tls/,
  )
  rateLimit({ weir, store: undefined }) // as a missing option
  assert.throws(() => rateLimit({ limit: '1 per minute' }), /url is missing/)
  assert.throws(() => rateLimit({ weir: {}, limit: '1 per minute' }), /weir must be a client/)
})

test('a missing trust proxy is named once', async (t) => {
  const lines = printed(t, 'error')
  const { weir } = await newWeir(t)
  const app = express()
  app.get('/', rateLimit({ weir, limit: '9 per minute per ip' }), (req, res) => res.send('ok'))
  app.get(
    '/hidden',
    rateLimit({ weir, limit: '9 per minute per ip', validate: { xForwardedForHeader: false } }),
    (req, res) => res.send('ok'),
  )
  const get = await serve(t, app)
  await statuses(get, 3, '/', { 'X-Forwarded-For': '192.0.2.7' })
  await statuses(get, 1, '/hidden', { 'X-Forwarded-For': '192.0.2.7' })
  assert.equal(lines.length, 1, lines)
  assert.match(
    lines[0],
    /X-Forwarded-For, but 'trust proxy' is not set.*call app\.set\('trust proxy', 1\)/,
  )
})

test('a keyGenerator that takes IPv6 addresses as they are is named', () => {
  const lines = []
  const logger = { error: (text) => lines.push(text), warn() {} }
  const weir = new Weir({ url: 'redis://127.0.0.1:1' })
  const limit = (keyGenerator, options) =>
    rateLimit({ weir, limit: '9 per minute per ip', logger, keyGenerator, ...options })
  limit((req) => ipKeyGenerator(req.ip))
  limit((req) => req.get('user'))
  limit((req) => req.ip, { validate: false })
  limit((req) => req.ip, { validate: { keyGeneratorIpFallback: false } })
  limit((req) => req.ip, { limit: undefined, policy: 'web' }) // which may count by networks
  assert.deepEqual(lines, [])
  limit((req) => req.ip)
  assert.match(lines[0], /an IPv6 client has many; return ipKeyGenerator\(request.ip\)/)
})

test('client addresses count as with express-rate-limit', () => {
  for (const ip of [
    '192.0.2.7',
    '::ffff:192.0.2.7',
    '2001:db8:1:2345:6:7:8:9',
    '2001:db8::1',
    '::ffff:c000:207',
  ]) {
    for (const subnet of [56, 64, 48, 32]) {
      assert.equal(
        ipKeyGenerator(ip, subnet),
        erl.ipKeyGenerator(ip, subnet).split('/')[0],
        `${ip}/${subnet}`,
      )
    }
  }
  assert.equal(ipKeyGenerator('2001:db8::1', false), '2001:db8::1')
  assert.equal(ipKeyGenerator('2001:db8::1', 0), erl.ipKeyGenerator('2001:db8::1', 0))
  assert.equal(ipKeyGenerator('2001:DB8:0:1ff::1', 56), '2001:db8:0:100::')
  assert.equal(ipKeyGenerator('::1', 64), '::')
  assert.equal(ipKeyGenerator('fe80::1%eth0', 64), 'fe80::')
})

test('the store makes the windows of express-rate-limit roll', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  app.use(erl.rateLimit({ windowMs: 60_000, limit: 2, store: new WeirStore({ weir }) }))
  app.get('/', (req, res) => res.json(req.rateLimit.used))
  const get = await serve(t, app)
  assert.equal((await get()).body, '1')
  assert.equal((await get()).body, '2')
  assert.equal((await get()).status, 429)
  const limiter = weir.limit('2 per 60000ms per key', { name: 'express-2-per-60000ms' })
  assert.equal((await limiter.peek({ key: '127.0.0.1' })).remaining, 0)
})

test('the store works by a policy of the file', async (t) => {
  const { weir } = await newWeir(t, { policies, flags: [] })
  const app = express()
  app.use(
    erl.rateLimit({
      windowMs: 60_000,
      limit: 2,
      store: new WeirStore({ weir, policy: 'web', dimension: 'ip' }),
    }),
  )
  app.get('/', (req, res) => res.send('ok'))
  assert.equal(await statuses(await serve(t, app), 3), '200 200 429')
})

test('the store counts failed requests back', async (t) => {
  const { weir } = await newWeir(t)
  const store = new WeirStore({ weir, name: 'back' })
  const app = express()
  app.use(erl.rateLimit({ windowMs: 60_000, limit: 2, skipFailedRequests: true, store }))
  app.get('/:status', (req, res) => res.status(Number(req.params.status)).send('ok'))
  const get = await serve(t, app)
  const used = async () => (await store.get('127.0.0.1'))?.totalHits ?? 0
  assert.equal((await get('/500')).status, 500)
  await until(async () => (await used()) === 0)
  assert.equal(await statuses(get, 3, '/200'), '200 200 429')
  assert.equal(await used(), 2, 'a denied request cost nothing, so nothing is counted back')
  await store.resetKey('127.0.0.1')
  assert.equal(await used(), 0)
})

test('a denial that is counted back opens nothing', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  const only401Counts = {
    skipSuccessfulRequests: true,
    requestWasSuccessful: (req, res) => res.statusCode !== 401,
  }
  const counts = (name, options) =>
    erl.rateLimit({ windowMs: 60_000, limit: 2, store: new WeirStore({ weir, name }), ...options })
  const login = (req, res) => res.status(401).send('wrong')
  app.get('/login', counts('login', only401Counts), login)
  const redirects = { skipSuccessfulRequests: true, handler: (req, res) => res.redirect('/slow') }
  app.get('/redirects', counts('redirects', redirects), login)
  const get = await serve(t, app)
  assert.equal(await statuses(get, 6, '/login'), '401 401 429 429 429 429')
  assert.equal(await statuses(get, 6, '/redirects'), '401 401 302 302 302 302')
})

test('a denial that is not counted back hides no other request for long', async (t) => {
  const { weir } = await newWeir(t)
  const store = new WeirStore({ weir, name: 'hidden' })
  store.init({ limit: 1, windowMs: 60_000, skipFailedRequests: true })
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  await store.increment('ann')
  t.mock.timers.tick(59_000)
  assert.equal((await store.increment('ann')).totalHits, 2)
  await store.decrement('ann')
  assert.equal((await store.get('ann')).totalHits, 1, 'this may have been the denial')
  assert.equal((await store.increment('ann')).totalHits, 2)
  t.mock.timers.tick(2000)
  await store.increment('bob') // drops keys without a request for a window
  t.mock.timers.tick(59_500)
  await store.decrement('ann')
  assert.equal(await store.get('ann'), undefined, 'the denial is a window ago')
})

test('the store closes no client of the program', async (t) => {
  const { server, weir } = await newWeir(t)
  const shared = new WeirStore({ weir, name: 'shared' })
  shared.shutdown()
  shared.init({ limit: 1, windowMs: 60_000 })
  assert.equal((await shared.increment('ann')).totalHits, 1)
  const own = new WeirStore({ url: server.url('resp'), name: 'own' })
  own.init({ limit: 1, windowMs: 60_000 })
  own.shutdown()
  await assert.rejects(own.increment('ann'), /the client is closed/)
})

test('the store throws in an outage, so that passOnStoreError decides', async (t) => {
  printed(t, 'error')
  for (const [passOnStoreError, want] of [
    [false, '500'],
    [true, '200'],
  ]) {
    const { server, weir } = await newWeir(t, {
      client: { timeout: 200, totalTimeout: 400, whenDown: 'allow' },
    })
    const app = express()
    app.use(
      erl.rateLimit({
        windowMs: 60_000,
        limit: 2,
        passOnStoreError,
        store: new WeirStore({ weir, name: 'outage' }),
      }),
    )
    app.get('/', (req, res) => res.send('ok'))
    const get = await serve(t, app)
    await server.fault({ kind: 'refuse' })
    assert.equal(await statuses(get, 1), want)
  }
})

test('a limit of none denies, with the store and without', async (t) => {
  const { weir } = await newWeir(t)
  const app = express()
  const store = new WeirStore({ weir, name: 'none' })
  app.get('/theirs', erl.rateLimit({ windowMs: 60_000, limit: 0, store, validate: false }))
  app.get('/ours', rateLimit({ weir, limit: 0 }))
  const get = await serve(t, app)
  assert.equal(await statuses(get, 2, '/theirs'), '429 429')
  assert.equal(await statuses(get, 2, '/ours'), '429 429')
})

test('the store rejects numbers that are none, and never lets such requests pass', async (t) => {
  const { weir } = await newWeir(t)
  for (const [options, text] of [
    [{ limit: 1.5, windowMs: 60_000 }, /needs a whole number as limit, not 1.5/],
    [
      { limit: 2 ** 51, windowMs: 60_000 },
      /limit must be a whole number, .*, not 2251799813685248/,
    ],
    [{ limit: 1, windowMs: 0.5 }, /windowMs must be a whole number, 1 to 34560000000, not 0.5/],
    [{ limit: 1, windowMs: '15m' }, /windowMs must be a whole number, .*, not "15m"/],
  ]) {
    const store = new WeirStore({ weir, name: 'numbers' })
    store.init(options)
    for (const call of ['increment', 'decrement', 'get', 'resetKey'])
      await assert.rejects(store[call]('ann'), text)
  }
})

test('the store rejects a limit that is no number, and never lets such requests pass', async (t) => {
  printed(t, 'error')
  const { weir } = await newWeir(t)
  const app = express()
  app.use(erl.rateLimit({ windowMs: 60_000, limit: () => 5, store: new WeirStore({ weir }) }))
  app.use((err, req, res, next) => res.status(500).send(err.message))
  assert.match(
    (await (await serve(t, app))()).body,
    /WeirStore needs a whole number as limit, not a function; .* plans in the policy file/,
  )
})

test('two stores with one name are named', async (t) => {
  const lines = printed(t, 'warn')
  const { weir } = await newWeir(t)
  const limit = (options) =>
    erl.rateLimit({ windowMs: 60_000, limit: 77, store: new WeirStore({ weir, ...options }) })
  const kept = [limit(), limit({ name: 'other' })]
  assert.equal(lines.length, 0, lines)
  kept.push(limit())
  assert.equal(lines.length, 1, lines)
  assert.match(
    lines[0],
    /two stores have the name "express-77-per-60000ms".*pass \{ name \} to each/,
  )
})

test('express.js can be required, and is the function itself', () => {
  const required = createRequire(import.meta.url)('../express.js')
  assert.equal(required, rateLimit)
  assert.equal(required.WeirStore, WeirStore)
  assert.equal(required.default, rateLimit)
})
