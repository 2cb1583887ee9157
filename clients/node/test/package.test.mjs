// The package as a user gets it, and the code of its README and of docs/node.md.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { blocks, install, pack, root, script, serve } from './package.mjs'
import { modules, start } from './stand.mjs'
import { statuses } from './web.mjs'

const patient = (text) =>
  text.replaceAll(/(url: 'redis:[^']*')/g, '$1, timeout: 20_000, totalTimeout: 40_000') // a busy machine is slow

// page returns the code of a page for a server, and with a port that the environment chooses.
function codeFor(server, text) {
  return patient(text)
    .replaceAll('redis://127.0.0.1:7073', server.url('resp'))
    .replace('app.listen(8080)', 'app.listen(process.env.PORT)')
}

async function inline(t) {
  const server = await start({ flags: ['--inline-policies'] })
  t.after(() => server.stop())
  return server
}

test('the archive holds the package and nothing else', async () => {
  const { files } = await pack()
  for (const name of [
    'package.json',
    'README.md',
    'LICENSE',
    'index.js',
    'index.mjs',
    'index.d.ts',
    'express.mjs',
    'fastify.js',
    'lib/resp.js',
  ]) {
    assert(files.includes(name), `${name} is missing in ${files}`)
  }
  for (const name of files) assert.doesNotMatch(name, /^(test|node_modules)\//)
})

test('installed without a network, it denies the second attempt', async (t) => {
  const server = await inline(t)
  const dir = await install()
  const [, example] = blocks('clients/node/README.md', 'js')
  assert.match(
    await script(dir, 'readme.mjs', codeFor(server, example)),
    /^true 3000\nfalse ([12]?\d{1,3}|3000)\n$/,
  )
  const required = example.replace(
    "import { Weir } from 'weirlimit'",
    "const { Weir } = require('weirlimit')",
  )
  const wrapped = `(async () => {${required}})()`.replace("{ user: 'ann' }", "{ user: 'bob' }")
  assert.match(
    await script(dir, 'readme.cjs', codeFor(server, wrapped)),
    /^true 3000\nfalse ([12]?\d{1,3}|3000)\n$/,
  )
  // TypeScript compiles a default import of a module of CommonJS to the module itself.
  const callable = `for (const name of ['weirlimit/express', 'weirlimit/fastify'])
      console.log(typeof require(name), require(name) === require(name).default)`
  assert.equal(await script(dir, 'callable.cjs', callable), 'function true\nfunction true\n')
  const names = ['weirlimit', 'weirlimit/express', 'weirlimit/fastify']
  const same = `import { createRequire } from 'node:module'
    for (const name of ${JSON.stringify(names)}) {
      const esm = await import(name)
      const cjs = createRequire(import.meta.url)(name)
      for (const name in cjs) if (cjs[name] !== esm[name]) throw new Error(name)
      console.log(Object.keys(cjs).length)
    }`
  assert.match(await script(dir, 'same.mjs', same), /^([1-9]\n){3}$/)
})

test('the README fits a screen', () => {
  const lines = readFileSync(join(root, 'clients/node/README.md'), 'utf8').split('\n')
  assert(lines.length <= 60, `${lines.length} lines`)
  const denied = lines.findIndex((line) => line.includes('200 200 200 200 200 429'))
  assert(denied > 0 && denied < 32, `the first 429 is in line ${denied}`)
})

test('the application of the README denies the sixth request', async (t) => {
  const server = await inline(t)
  const dir = await install({ others: true })
  const [app] = blocks('clients/node/README.md', 'js')
  const get = await serve(t, dir, 'readme.mjs', codeFor(server, app))
  assert.equal(await statuses(get, 6), '200 200 200 200 200 429')
})

test('an application with express-rate-limit changes one line', async (t) => {
  const server = await inline(t)
  const dir = await install({ others: true })
  const before = `import express from 'express'
import { rateLimit } from 'express-rate-limit'

const app = express()
app.use(rateLimit({ windowMs: 60_000, limit: 5, standardHeaders: 'draft-8', legacyHeaders: false }))
app.get('/', (req, res) => res.send('hello'))
app.listen(process.env.PORT)
`
  const after = before.replace("'express-rate-limit'", "'weirlimit/express'")
  const changed = after.split('\n').filter((line, i) => line !== before.split('\n')[i])
  assert.deepEqual(changed, ["import { rateLimit } from 'weirlimit/express'"])
  const env = { WEIR_URL: server.url('resp') }
  const [old, first, second] = await Promise.all([
    serve(t, dir, 'before.mjs', before),
    serve(t, dir, 'first.mjs', after, env),
    serve(t, dir, 'second.mjs', after, env),
  ])
  assert.equal(await statuses(old, 6), '200 200 200 200 200 429')
  assert.equal(await statuses(first, 3), '200 200 200') // both share the limit
  assert.equal(await statuses(second, 3), '200 200 429')
  const [theirs, ours] = [await old(), await first()]
  assert.deepEqual([ours.status, ours.body], [theirs.status, theirs.body])
})

test('examples/node-express limits addresses and users', async (t) => {
  const server = await start()
  t.after(() => server.stop())
  const dir = await install({ others: true })
  const app = readFileSync(join(root, 'examples/node-express/app.js'), 'utf8').replace(
    'new Weir({',
    '$& timeout: 20_000, totalTimeout: 40_000,',
  )
  const get = await serve(t, dir, 'example.mjs', app, { WEIR_URL: server.url('resp') })
  assert.equal(await statuses(get, 6), '200 200 200 200 200 429')
  for (const name of ['ann', 'Jürgen', '张三', 'a b&c=d+e%41?#']) {
    assert.equal(
      await statuses(get, 11, '/users/' + encodeURIComponent(name)),
      '200 '.repeat(10) + '429',
      name,
    )
  }
  assert.equal(await statuses(get, 1, '/users/' + 'n'.repeat(1100)), '400')
})

test('docs/node.md and examples/node-frameworks: each application denies', async (t) => {
  const dir = await install({ others: true })
  const [first] = blocks('docs/node.md', 'js')
  const [fastify, hono, nest] = ['fastify.mjs', 'hono.mjs', 'nest.ts'].map((name) =>
    readFileSync(join(root, 'examples/node-frameworks', name), 'utf8'),
  )
  const typescript = modules('typescript')
  const { outputText } = typescript.transpileModule(nest, {
    compilerOptions: {
      target: 'es2022',
      module: 'esnext',
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
    },
  })
  const denies = async ([name, text]) => {
    const server = await inline(t)
    const get = await serve(t, dir, `${name}.mjs`, codeFor(server, text))
    assert.equal(await statuses(get, 6), '200 200 200 200 200 429', name)
    const denied = await get()
    assert.match(denied.fields.get('retry-after'), /^\d+$/, name)
  }
  const applications = [
    ['first', first],
    ['fastify', fastify],
    ['hono', hono],
    ['nest', outputText],
  ]
  await Promise.all(applications.map(denies))
})

test('docs/node.md: the other programs run', async (t) => {
  const server = await inline(t)
  const dir = await install()
  const [take, reserve] = blocks('docs/node.md', 'js', 'The client')
  const taken = codeFor(server, take).replace('3s apart', '60s apart')
  assert.equal(await script(dir, 'take.mjs', taken), '')
  assert.match(await script(dir, 'again.mjs', taken), /^try again in [1-5]\d{4} ms\n$/)
  assert.equal(
    await script(dir, 'reserve.mjs', codeFor(server, reserve)),
    'true 800\n{ reserved: 800, actual: 650, refunded: 150, recorded: 0 }\n',
  )
})

test('the types fit', async () => {
  const dir = await install({ others: true })
  const typescript = modules('typescript')
  const text = `import { Weir, WeirError, type Decision } from 'weirlimit'
import defaultRateLimit, { rateLimit, WeirStore } from 'weirlimit/express'
import defaultWeirStore, { weirStore } from 'weirlimit/fastify'
import { rateLimit as theirs } from 'express-rate-limit'
import express, { type Request } from 'express'

const weir = new Weir({ url: 'redis://127.0.0.1:7073', whenDown: 'allow' })
weir.on('down', (err) => console.error(err.kind))
const d: Decision = await weir.limit('1 per minute per user').take({ user: 'ann' }, { n: 2, id: 'x' })
const r = await weir.policy('model').reserve({ tenant: 'acme' })
console.log(d.retryAfterMs, r.expiresAt?.getTime(), (await r.settle(5)).refunded, WeirError.name)
const app = express()
app.use(rateLimit({ weir, limit: '5 per minute per ip', keyGenerator: (req: Request) => req.ip ?? '' }))
app.use(rateLimit({ windowMs: 60_000, limit: async () => 5, standardHeaders: 'draft-8' }))
app.use(theirs({ limit: 5, store: new WeirStore({ url: 'redis://127.0.0.1:7073' }) }))
app.use(defaultRateLimit({ limit: 5, identifier: (req) => req.ip ?? '', retryAfter: 5, logger: console }))
const hits: number | undefined = (await rateLimit().getKey('ann'))?.totalHits
export const Store = weirStore({ weir, name: 'x' })
export const Stores = [defaultWeirStore(), hits]
// @ts-expect-error: a key has texts
await weir.policy('model').take({ user: 5 })
// @ts-expect-error: no such option
new Weir({ timout: 5 })
`
  const required = `import weirlimit = require('weirlimit')
import rateLimit, { WeirStore } from 'weirlimit/express'
import weirStore from 'weirlimit/fastify'
export const store = new WeirStore({ weir: new weirlimit.Weir() })
export const limit = rateLimit({ max: 5, ipv6Subnet: async () => 48 })
export const Store = weirStore('redis://127.0.0.1:7073')
`
  const files = Object.entries({ 'types.mts': text, 'types.cts': required }).map(
    ([name, source]) => {
      writeFileSync(join(dir, name), source)
      return join(dir, name)
    },
  )
  const program = typescript.createProgram(files, {
    module: typescript.ModuleKind.NodeNext,
    moduleResolution: typescript.ModuleResolutionKind.NodeNext,
    target: typescript.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts'],
    esModuleInterop: true,
    strict: true,
    noEmit: true,
    typeRoots: [join(dir, '../node_modules/@types')],
    types: ['node'],
  })
  const ours = [
    ...files,
    ...program
      .getSourceFiles()
      .map((file) => file.fileName)
      .filter((name) => name.includes('/node_modules/weirlimit/')),
  ]
  assert.equal(ours.length, 8, ours)
  const problems = [
    ...program.getOptionsDiagnostics(),
    ...ours.flatMap((name) => {
      const file = program.getSourceFile(name)
      return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
    }),
  ]
  const host = {
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => dir,
    getNewLine: () => '\n',
  }
  assert.equal(typescript.formatDiagnostics(problems, host), '')
})
