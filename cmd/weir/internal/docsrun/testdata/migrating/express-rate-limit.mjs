import express from 'express'
import { rateLimit } from 'express-rate-limit'

export const app = express()
app.use(rateLimit({ windowMs: 60_000, limit: 20, standardHeaders: 'draft-8', legacyHeaders: false }))
app.get('/', (req, res) => res.send('hello'))
