import type { Decision, Key, Weir, WeirOptions } from './index.js'

type Awaitable<T> = T | Promise<T>
/** A value, or a function of the request that returns one. */
type OfRequest<T, Req, Res> = T | ((request: Req, response: Res) => Awaitable<T>)

/** The parts of a request and a response of Express that are used. */
interface Request {
  ip?: string
  headers: Record<string, string | string[] | undefined>
}
interface Response {
  statusCode: number
}
type Limit = number | string | string[]
type Next = (err?: unknown) => void

export interface RateLimitInfo {
  /** The number of the limit, if the code has a single one. */
  limit?: number
  windowMs?: number
  used?: number
  remaining: number
  resetTime?: Date
  key: string
  decision: Decision
}

export interface RateLimitOptions<Req = any, Res = any> extends WeirOptions {
  /** A client. Without it, its options stand beside these. */
  weir?: Weir
  /**
   * Requests in windowMs, or the text of a limit, such as `'100 per 15m per ip'`, or several
   * texts, or a function that returns one of these. Default 5.
   */
  limit?: OfRequest<Limit, Req, Res>
  /** The older name of `limit`. */
  max?: OfRequest<Limit, Req, Res>
  /** Milliseconds, for a limit that is a number; default 60,000. */
  windowMs?: number
  /** Instead of `limit`: the name of a policy of the server's file. */
  policy?: string
  /** With `limit`: the name of the policy; default: made of the text. */
  name?: string
  /** Text, the value of the only dimension, or an object with all; default: the client's address. */
  keyGenerator?: (request: Req, response: Res) => Awaitable<string | Key>
  ipv6Subnet?: OfRequest<number | false, Req, Res>
  /** The name of the limit in the fields of draft 8; default: `name`, or such as `5-in-1min`. */
  identifier?: OfRequest<string, Req, Res>
  skip?: (request: Req, response: Res) => Awaitable<boolean>
  handler?: (
    request: Req,
    response: Res,
    next: Next,
    options: RateLimitOptions<Req, Res>,
  ) => unknown
  message?: unknown
  statusCode?: number
  /** Seconds for Retry-After in place of the exact ones. */
  retryAfter?: OfRequest<number, Req, Res>
  legacyHeaders?: boolean
  /** The older name of `legacyHeaders`. */
  headers?: boolean
  standardHeaders?: boolean | 'draft-6' | 'draft-7' | 'draft-8'
  requestPropertyName?: string
  requestWasSuccessful?: (request: Req, response: Res) => Awaitable<boolean>
  skipFailedRequests?: boolean
  skipSuccessfulRequests?: boolean
  passOnStoreError?: boolean
  validate?: boolean | Record<string, boolean>
  /** Gets the warnings; default `console`. */
  logger?: { error(text: string): void }
}

export interface RateLimitMiddleware {
  (request: any, response: any, next: Next): void
  resetKey(key: string | Key): Promise<void>
  getKey(key: string | Key): Promise<{ totalHits: number; resetTime: Date } | undefined>
}

/** Middleware for Express with the options of express-rate-limit. */
export function rateLimit<Req = Request, Res = Response>(
  options?: RateLimitOptions<Req, Res>,
): RateLimitMiddleware
export default rateLimit

export interface WeirStoreOptions extends WeirOptions {
  /** A client. Without it, its options stand beside these. */
  weir?: Weir
  /** The name under which requests count; default: made of limit and windowMs. */
  name?: string
  /** A policy of the server's file instead of limit and windowMs, which counts by `dimension`. */
  policy?: string
  /** Default `key`. */
  dimension?: string
}

/** A store of express-rate-limit: `store: new WeirStore({ url: 'redis://127.0.0.1:7073' })`. */
export class WeirStore {
  constructor(options?: WeirStoreOptions | string)
  localKeys: boolean
  prefix: string
  init(options: { limit: unknown; windowMs: number }): void
  get(key: string): Promise<{ totalHits: number; resetTime: Date } | undefined>
  increment(key: string): Promise<{ totalHits: number; resetTime: Date }>
  decrement(key: string): Promise<void>
  resetKey(key: string): Promise<void>
  shutdown(): void
}

/** The value under which a client address counts: of IPv6 its network. */
export function ipKeyGenerator(ip: string, ipv6Subnet?: number | false): string
