// The store with the real fastify and @fastify/rate-limit.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { weirStore } from '../fastify.mjs'
import { modules } from './stand.mjs'
import { newWeir, printed } from './web.mjs'

const fastify = modules('fastify')
const rateLimit = modules('@fastify/rate-limit')

// newApp returns an application with the plugin, and a function that sends requests in its process.
async function newApp(t, options, routes) {
  const app = fastify()
  await app.register(rateLimit, options)
  routes(app)
  t.after(() => app.close())
  return async (n, url = '/') => {
    const all = []
    for (let i = 0; i < n; i++) all.push((await app.inject(url)).statusCode)
    return all.join(' ')
  }
}

test('windows roll and are shared', async (t) => {
  const { weir } = await newWeir(t)
  const routes = (app) => app.get('/', async () => 'ok')
  const options = { max: 3, timeWindow: '1 minute', store: weirStore({ weir }) }
  const first = await newApp(t, options, routes)
  const second = await newApp(t, options, routes)
  assert.equal(await first(2), '200 200')
  assert.equal(await second(2), '200 429')
  assert.equal(await first(1), '429')
  const limiter = weir.limit('3 per 60000ms per key', { name: 'fastify' })
  assert.equal((await limiter.peek({ key: '127.0.0.1' })).remaining, 0)
})

test('the fields tell what is left', async (t) => {
  const { weir } = await newWeir(t)
  const app = fastify()
  t.after(() => app.close())
  await app.register(rateLimit, {
    max: 2,
    timeWindow: 60_000,
    store: weirStore({ weir, name: 'fields' }),
  })
  app.get('/', async () => 'ok')
  const get = async () => (await app.inject('/')).headers
  assert.equal((await get())['x-ratelimit-remaining'], '1')
  assert.equal((await get())['x-ratelimit-remaining'], '0')
  const denied = await get()
  assert.equal(denied['x-ratelimit-limit'], '2')
  assert.match(denied['retry-after'], /^(5\d|60)$/)
})

test('a route with a limit of its own counts by itself', async (t) => {
  const { weir } = await newWeir(t)
  const get = await newApp(t, { max: 2, timeWindow: 60_000, store: weirStore({ weir }) }, (app) => {
    app.get('/', async () => 'ok')
    app.get('/search', { config: { rateLimit: { max: 1, timeWindow: 60_000 } } }, async () => 'ok')
    app.get('/Search', { config: { rateLimit: { max: 1, timeWindow: 60_000 } } }, async () => 'ok')
  })
  assert.equal(await get(2, '/search'), '200 429')
  assert.equal(await get(2, '/Search'), '200 429')
  assert.equal(await get(3, '/'), '200 200 429')
})

test('a peek of the plugin changes nothing', async (t) => {
  const { weir } = await newWeir(t)
  const app = fastify()
  t.after(() => app.close())
  await app.register(rateLimit, {
    global: false,
    max: 1,
    timeWindow: 60_000,
    store: weirStore({ weir, name: 'peek' }),
  })
  const check = app.createRateLimit()
  app.get('/peek', async (request) => (await check(request, { increment: false })).remaining)
  app.get('/take', async (request) => (await check(request)).isExceeded)
  const body = async (url) => (await app.inject(url)).body
  assert.equal(await body('/peek'), '1')
  assert.equal(await body('/take'), 'false')
  assert.equal(await body('/peek'), '0')
  assert.equal(await body('/take'), 'true')
})

test('without weir the plugin decides by skipOnError', async (t) => {
  printed(t, 'error')
  for (const [skipOnError, want] of [
    [false, '500'],
    [true, '200'],
  ]) {
    const { server, weir } = await newWeir(t, {
      client: { timeout: 200, totalTimeout: 400, whenDown: 'allow' },
    })
    const get = await newApp(t, { max: 2, skipOnError, store: weirStore({ weir }) }, (app) =>
      app.get('/', async () => 'ok'),
    )
    await server.fault({ kind: 'refuse' })
    assert.equal(await get(1), want)
  }
})

test('fastify.js can be required, and is the function itself', () => {
  const required = createRequire(import.meta.url)('../fastify.js')
  assert.equal(required, weirStore)
  assert.equal(required.weirStore, weirStore)
  assert.equal(required.default, weirStore)
})

test('options that need a count of denials are named', async (t) => {
  const { weir } = await newWeir(t)
  for (const [options, text] of [
    [{ continueExceeding: true }, /continueExceeding does not go with weirStore/],
    [{ exponentialBackoff: true }, /exponentialBackoff does not go/],
    [{ ban: 2 }, /ban does not go with weirStore/],
  ]) {
    await assert.rejects(
      newApp(t, { ...options, store: weirStore({ weir }) }, () => {}),
      text,
    )
  }
})
