// One Express application with one limiter of 20 requests a second: node app.mjs NAME. It prints its
// port.
import { createRequire } from 'node:module'

const require = createRequire(process.env.MODULES + '/package.json')
const express = require('express')

function expressRateLimit() {
  const { rateLimit } = require('express-rate-limit')
  return rateLimit({ windowMs: 1000, limit: 20, standardHeaders: 'draft-8', legacyHeaders: false })
}

function flexible() {
  const { RateLimiterMemory } = require('rate-limiter-flexible')
  const limiter = new RateLimiterMemory({ points: 20, duration: 1 })
  return (req, res, next) => limiter.consume(req.ip).then(() => next(), (denial) => {
    if (denial instanceof Error) return next(denial)
    res.sendStatus(429)
  })
}

const limiters = { 'express-rate-limit': expressRateLimit, 'rate-limiter-flexible': flexible }
const app = express()
app.use(limiters[process.argv[2]]())
app.get('/', (req, res) => res.send('hello\n'))
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
