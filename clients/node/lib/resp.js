'use strict'

const net = require('node:net')
const tls = require('node:tls')
const {
  WeirError,
  unavailable,
  undecided,
  protocolError,
  authError,
  lostError,
  clip,
} = require('./errors')

// This file speaks RESP2 over one pipelined connection. docs/resp.md describes the commands.

// encode returns the text of a command.
function encode(args) {
  let text = `*${args.length}\r\n`
  for (const arg of args) text += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`
  return text
}

// isKind reports whether a byte begins a reply.
const isKind = (byte) => ':$*-+'.includes(String.fromCharCode(byte))

// A Reader parses replies, also such as arrive in pieces.
class Reader {
  constructor() {
    this.buffer = Buffer.alloc(0)
    this.at = 0
  }

  add(chunk) {
    const rest = this.buffer.length - this.at
    this.buffer = rest === 0 ? chunk : Buffer.concat([this.buffer.subarray(this.at), chunk])
    this.at = 0
  }

  // next returns a reply: a number, a text, a list of these, or a ReplyError. It returns undefined
  // if the reply is not complete, and throws if the bytes are none.
  next() {
    const begin = this.at
    const reply = this.value(0)
    if (reply === undefined) this.at = begin
    return reply
  }

  value(depth) {
    const end = this.buffer.indexOf(13, this.at) // \r
    if (end < 0 || end + 1 >= this.buffer.length) {
      const isEmpty = this.buffer.length === this.at
      if (!isEmpty && !isKind(this.buffer[this.at])) throw this.none()
      return undefined
    }
    const kind = this.buffer[this.at]
    const line = this.at + 1
    this.at = end + 2
    switch (kind) {
      case 58: // :
        return this.number(line, end)
      case 36: // $
        return this.bulk(this.number(line, end))
      case 42: // *
        return this.list(this.number(line, end), depth)
      case 43: // +
        return this.buffer.toString('utf8', line, end)
      case 45: // -
        return new ReplyError(this.buffer.toString('utf8', line, end))
    }
    this.at = line - 1
    throw this.none()
  }

  number(from, to) {
    let i = from
    const negative = this.buffer[i] === 45
    if (negative) i++
    if (i === to) throw this.none()
    let n = 0
    for (; i < to; i++) {
      const digit = this.buffer[i] - 48
      if (digit < 0 || digit > 9) throw this.none()
      n = n * 10 + digit
    }
    return negative ? -n : n
  }

  // bulk returns a text; null for the size −1, which weir never sends.
  bulk(size) {
    if (size === -1) return null
    if (size < 0 || size > 1 << 20) throw this.none()
    if (this.buffer.length < this.at + size + 2) return undefined
    const text = this.buffer.toString('utf8', this.at, this.at + size)
    this.at += size + 2
    return text
  }

  list(size, depth) {
    if (size === -1) return null
    if (size < 0 || size > 1024 || depth > 2) throw this.none()
    const all = new Array(size)
    for (let i = 0; i < size; i++) {
      const item = this.value(depth + 1)
      if (item === undefined) return undefined
      all[i] = item
    }
    return all
  }

  none() {
    return new Error(clip(this.buffer.toString('latin1', this.at, this.at + 80)))
  }
}

// A ReplyError is an error of the server. Its first word is a code.
class ReplyError {
  constructor(line) {
    const space = line.indexOf(' ')
    this.code = space < 0 ? line : line.slice(0, space)
    this.text = space < 0 ? '' : line.slice(space + 1)
  }
}

// A Connection sends calls over one socket and keeps it open. A lost socket is opened again with
// the next call.
class Connection {
  constructor(address, options) {
    this.address = address
    this.token = options.token
    this.tls = options.tls
    this.socket = undefined
    this.ready = false // connected, and authenticated if there is a token
    this.waiting = [] // calls without an answer, in the order of their commands
    this.unsent = '' // commands for the next write
    this.flushing = false
    this.flush = this.flush.bind(this)
  }

  // send sends the text of a command, and calls done with an error or a reply, once. It returns the
  // entry of the call for abandon.
  send(command, done) {
    const entry = { done, sent: performance.now() }
    if (!this.socket) this.connect()
    if (this.waiting.length === 0) this.socket.ref()
    this.waiting.push(entry)
    this.unsent += command
    if (!this.flushing) {
      this.flushing = true
      setImmediate(this.flush) // all calls of this turn are one write
    }
    return entry
  }

  flush() {
    this.flushing = false
    if (!this.ready || this.unsent === '') return
    const text = this.unsent
    this.unsent = ''
    this.socket.write(text)
  }

  // abandon gives up an entry whose time is over. Its answer may still come and is dropped. A
  // socket from which no byte has come since the call was sent is replaced.
  abandon(entry) {
    entry.done = drop
    if (this.waiting.includes(entry) && this.heard < entry.sent) {
      this.fail(unavailable(`${this.address.shown} is silent`))
    }
  }

  connect() {
    const { host, port, path, tls: secure } = this.address
    const to = path ? { path } : { host, port }
    const server = secure && !net.isIP(host) ? { servername: host } : {}
    const socket = secure ? tls.connect({ ...to, ...server, ...this.tls }) : net.connect(to)
    const reader = new Reader()
    this.socket = socket
    this.ready = false
    this.heard = performance.now()
    this.greeting = this.token === undefined ? 0 : 1 // replies that belong to no call
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      if (this.socket !== socket) return
      this.ready = true
      if (this.greeting > 0) socket.write(encode(['AUTH', this.token]))
      this.flush()
    })
    socket.on('data', (chunk) => {
      if (this.socket === socket) this.receive(reader, chunk)
    })
    socket.on('error', (err) => {
      if (this.socket === socket) this.fail(lostError(this.address.shown, err))
    })
    socket.on('close', () => {
      if (this.socket === socket)
        this.fail(unavailable(`${this.address.shown} closed the connection`))
    })
  }

  receive(reader, chunk) {
    this.heard = performance.now()
    reader.add(chunk)
    const { socket } = this
    try {
      for (let reply; this.socket === socket && (reply = reader.next()) !== undefined;)
        this.answer(reply)
    } catch (err) {
      this.fail(this.none(err.message))
    }
  }

  answer(reply) {
    if (this.greeting > 0) {
      this.greeting--
      if (
        reply instanceof ReplyError &&
        !reply.text.startsWith('AUTH: this listener requires no token')
      ) {
        this.fail(this.errorOf(reply))
      }
      return
    }
    const entry = this.waiting.shift()
    if (!entry) {
      this.fail(this.none('an answer without a call'))
      return
    }
    if (this.waiting.length === 0) this.socket.unref() // an idle connection keeps no process alive
    if (reply instanceof ReplyError) entry.done(this.errorOf(reply))
    else entry.done(undefined, reply)
  }

  // fail ends the socket and all of its calls.
  fail(err) {
    const { socket, waiting } = this
    this.socket = undefined
    this.ready = false
    this.waiting = []
    this.unsent = ''
    socket.destroy()
    for (const entry of waiting) entry.done(err)
  }

  close() {
    if (this.socket) this.fail(unavailable('the client is closed'))
  }

  none(text) {
    let next = 'give the address of weir serve --resp-listen, of the version of this package'
    if (text.includes('HTTP/')) next = 'this listener speaks HTTP: write http:// for the scheme'
    if (text.startsWith(alertOfTLS)) next = 'this listener uses TLS: write rediss:// for the scheme'
    return protocolError(`${text} of ${this.address.shown} is no answer of weir; ${next}`)
  }

  // unknownCommand returns the error of a server that does not have a command of weir.
  unknownCommand(text) {
    const { shown } = this.address
    if (text.includes('Its commands are'))
      return protocolError(
        `weir at ${shown} is of another version, because it does not have a command; ` +
          'use weirlimit and weir of the same version',
      )
    return protocolError(
      `${shown} is a Redis, no weir; give the address of weir serve --resp-listen`,
    )
  }

  // errorOf returns the error for an error of the server.
  errorOf(reply) {
    switch (reply.code) {
      case 'ERR':
        if (reply.text.startsWith('max number of clients')) return undecided(reply.text)
        if (/^unknown command/i.test(reply.text)) return this.unknownCommand(reply.text)
        return new WeirError('input', reply.text)
      case 'NOAUTH':
      case 'WRONGPASS':
        return authError(this.token !== undefined)
      case 'NOPERM':
        return new WeirError('auth', reply.text)
      case 'UNAVAILABLE':
        return undecided(reply.text)
      case 'SETTLED':
        return new WeirError('settled', reply.text)
      case 'EXPIRED':
        return new WeirError('expired', reply.text)
    }
    return this.none(clip(`${reply.code} ${reply.text}`))
  }
}

// alertOfTLS begins the answer of a server that expects TLS, as an error shows it.
const alertOfTLS = '"\\u0015\\u0003'

function drop() {}

module.exports = { Connection, Reader, ReplyError, encode }
