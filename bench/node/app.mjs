// One Express application with one way to limit: node app.mjs WAY. It prints its port.
import { createRequire } from 'node:module'
import { waysOf } from './ways.mjs'

const require = createRequire(process.env.MODULES + '/package.json')
const { take } = await waysOf(require)[process.argv[2]]()
const express = require('express')

let requests = 0
const app = express()
app.use(async (req, res, next) => {
  if (await take(`user-${requests++ % 10_000}`)) return next()
  res.sendStatus(429)
})
app.get('/', (req, res) => res.send('hello\n'))
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
