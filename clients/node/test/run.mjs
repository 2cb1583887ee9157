// Runs the tests: node test/run.mjs [FILES]. It needs Go for the stand, and npm for the packages
// that tests use.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { standAddress } from './stand.mjs'

const dir = fileURLToPath(new URL('.', import.meta.url))
const env = { ...process.env, WEIR_STAND: await standAddress() }
if (!env.WEIR_NODE_MODULES && !existsSync(dir + 'modules/node_modules')) {
  const flags = [
    'ci',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--silent',
  ]
  const { status } = spawnSync('npm', flags, { cwd: dir + 'modules', stdio: 'inherit' })
  if (status !== 0) throw new Error(`npm ci in ${dir}modules ended with ${status}`)
}
const files = process.argv.slice(2)
if (files.length === 0)
  files.push(
    ...readdirSync(dir)
      .filter((name) => name.endsWith('.test.mjs'))
      .map((name) => dir + name),
  )
const { status } = spawnSync(process.execPath, ['--test', '--test-reporter=spec', ...files], {
  env,
  stdio: 'inherit',
})
process.exit(status ?? 1)
