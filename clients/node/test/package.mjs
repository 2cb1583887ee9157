// The package as a user gets it: packed, and installed from the archive without a network.
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
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

// serve runs a program that listens on PORT, and returns a function that sends it requests. PORT is
// 0, so that the program gets a free port: one that was free before its start may be another's.
export async function serve(t, dir, name, text, env) {
  writeFileSync(join(dir, name), text)
  const child = spawn(process.execPath, ['--require', reportsPort, name], {
    cwd: dir,
    env: { ...process.env, ...env, PORT: 0 },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.after(() => child.kill())
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${name} ended with ${code}`)
  })
  ended.catch(() => {})
  const [port] = await Promise.race([once(child, 'message'), ended])
  while (!(await accepts(port))); // Fastify listens on ::1 as well, and perhaps there first
  return getFrom(`http://127.0.0.1:${port}`)
}

// accepts reports whether a port of 127.0.0.1 accepts connections.
async function accepts(port) {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch (err) {
    if (err.code !== 'ECONNREFUSED') throw err
    return false
  } finally {
    socket.destroy()
  }
}

// reportsPort is a module that sends the port on which its program listens.
const reportsPort = fileURLToPath(new URL('port.cjs', import.meta.url))

// blocks returns the code of a page in one language.
export function blocks(page, language, heading) {
  let text = readFileSync(join(root, page), 'utf8')
  if (heading) text = text.split(new RegExp(`^#+ ${heading}$`, 'm'))[1].split(/^## /m)[0]
  return [...text.matchAll(new RegExp('^```' + language + '\\n(.*?)^```$', 'gms'))].map((m) => m[1])
}
