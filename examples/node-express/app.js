// An Express application that limits the requests of each client address, and of each user.
// Its policies are those of `weir serve`: docs/node.md.
import express from 'express'
import { Weir } from 'weirlimit'
import { rateLimit } from 'weirlimit/express'

const weir = new Weir({ url: process.env.WEIR_URL ?? 'redis://127.0.0.1:7073' })
const byUser = rateLimit({
  weir,
  policy: 'demo',
  keyGenerator: (req) => ({ user: req.params.name }),
})

const app = express() // behind a proxy: app.set('trust proxy', 1)
app.get('/', rateLimit({ weir, policy: 'search' }), (req, res) => res.send('Hello.\n'))
app.get('/users/:name', byUser, (req, res) => res.send('Hello.\n'))
app.listen(process.env.PORT ?? 8080, '127.0.0.1')
