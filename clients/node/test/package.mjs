// The package as a user gets it: packed, and installed from the archive without a network.
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'
import { after } from 'node:test'
import { promisify } from 'node:util'
import { modulesDir } from './stand.mjs'
import { getFrom } from './web.mjs'

const run = promisify(execFile)
export const root = fileURLToPath(new URL('../../..', import.meta.url))

let packed

// pack returns the archive that npm makes of the package, and the names of its files.
export function pack() {
  packed ??= (async () => {
    const flags = ['--json', '--ignore-scripts', '--pack-destination', temporary(tmpdir())]
    const { stdout } = await run('npm', ['pack', ...flags], { cwd: join(root, 'clients/node') })
    const [{ filename, files }] = Object.values(JSON.parse(stdout))
    return { archive: join(flags.at(-1), filename), files: files.map((file) => file.path) }
  })()
  return packed
}

const installed = {}

// install installs the archive without a network, and returns the folder: an empty one, or with
// others a copy that also finds the packages of the tests.
export function install({ others = false } = {}) {
  installed[others] ??= others ? copyOfInstalled() : installArchive()
  return installed[others]
}

async function installArchive() {
  const { archive } = await pack()
  const dir = temporary(tmpdir())
  writeFileSync(join(dir, 'package.json'), '{"name": "app", "private": true, "type": "module"}')
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', archive], { cwd: dir })
  return dir
}

async function copyOfInstalled() {
  const dir = temporary(modulesDir)
  cpSync(await install(), dir, { recursive: true })
  return dir
}

const folders = []

after(() => {
  for (const dir of folders) rmSync(dir, { recursive: true })
})

// temporary returns a new folder that is deleted after the tests.
function temporary(parent) {
  folders.push(mkdtempSync(join(parent, 'weirlimit-')))
  return folders.at(-1)
}

// script writes and runs a program, and returns what it prints.
export async function script(dir, name, text, env) {
  writeFileSync(join(dir, name), text)
  const { stdout } = await run(process.execPath, [name], {
    cwd: dir,
    env: { ...process.env, ...env },
    timeout: 120_000,
  })
  return stdout
}

// serve runs a program that listens on PORT, and returns a function that sends it requests.
export async function serve(t, dir, name, text, env) {
  writeFileSync(join(dir, name), text)
  // Another process may take the port before the application does.
  for (let tries = 3; ; tries--) {
    try {
      return await serveAt(await freePort(), t, dir, name, env)
    } catch (err) {
      if (tries === 1) throw err
    }
  }
}

async function serveAt(port, t, dir, name, env) {
  const child = spawn(process.execPath, [name], {
    cwd: dir,
    env: { ...process.env, ...env, PORT: port },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  let isRunning = true
  const ended = once(child, 'exit').then(([code]) => {
    isRunning = false
    throw new Error(`${name} ended with ${code}`)
  })
  ended.catch(() => {})
  t.after(() => child.kill())
  const get = getFrom(`http://127.0.0.1:${port}`)
  const connects = async () => {
    while (isRunning) {
      try {
        return await get('/nosuch')
      } catch (err) {
        if (err.code !== 'ECONNREFUSED') throw err
        await new Promise(setImmediate)
      }
    }
  }
  await Promise.race([connects(), ended])
  return get
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  return port
}

// blocks returns the code of a page in one language.
export function blocks(page, language, heading) {
  let text = readFileSync(join(root, page), 'utf8')
  if (heading) text = text.split(new RegExp(`^#+ ${heading}$`, 'm'))[1].split(/^## /m)[0]
  return [...text.matchAll(new RegExp('^```' + language + '\\n(.*?)^```$', 'gms'))].map((m) => m[1])
}
