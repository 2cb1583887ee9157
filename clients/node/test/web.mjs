// What tests of web frameworks share.
import { once } from 'node:events'
import http from 'node:http'
import { text } from 'node:stream/consumers'
import { Weir } from '../index.mjs'
import { modules, start } from './stand.mjs'

export const express = modules('express')

// newWeir starts a server, with inline policies unless options say otherwise, and returns a client
// of it.
export async function newWeir(t, { client, front = 'resp', ...options } = {}) {
  const server = await start({ flags: ['--inline-policies'], ...options })
  const patient = { timeout: 20_000, totalTimeout: 40_000 } // a busy machine is slow
  const tls = server.ca && { ca: server.ca }
  const weir = new Weir({ url: server.url(front), ...patient, tls, ...client })
  t.after(async () => {
    weir.close()
    await server.stop()
  })
  return { server, weir }
}

// serve listens with an Express application, or another listener of node:http, and returns get.
export async function serve(t, app) {
  const server = http.createServer({ keepAliveTimeout: 0 }, app) // a busy machine is slow
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return getFrom(`http://127.0.0.1:${server.address().port}`)
}

// getFrom returns a function that sends a request and returns the status, the fields and the body.
export function getFrom(origin) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 50 })
  const get = async (path = '/', headers = {}) => {
    const request = http.get(origin + path, { agent, headers })
    const [response] = await once(request, 'response')
    return {
      status: response.statusCode,
      fields: new Headers(response.headers),
      body: await text(response),
    }
  }
  return Object.assign(get, { origin })
}

// statuses sends requests one after the other.
export async function statuses(get, n, path, headers) {
  const all = []
  for (let i = 0; i < n; i++) all.push((await get(path, headers)).status)
  return all.join(' ')
}

// printed collects the lines that a function of console gets during the test.
export function printed(t, name) {
  const lines = []
  t.mock.method(console, name, (...text) => {
    lines.push(text.join(' '))
  })
  return lines
}
