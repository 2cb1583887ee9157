import { EventEmitter } from 'node:events'
import type { ConnectionOptions } from 'node:tls'

export interface WeirOptions {
  /**
   * The address of `weir serve --resp-listen`: `redis://host:port`, `rediss://host:port` with TLS,
   * or `unix:/path`; or that of `--listen`: `http://host:port` or `https://host:port`. A password in
   * it is the token.
   * Default: the environment variable WEIR_URL.
   */
  url?: string
  /** The text of the file that `weir serve --token-file` names. */
  token?: string
  /** Options of TLS, such as `{ ca }`, or `{ cert, key }` where weir asks for a certificate. */
  tls?: ConnectionOptions
  /** Milliseconds for one attempt of a call; default 250. */
  timeout?: number
  /** Milliseconds for a call with its retries; default 1000. */
  totalTimeout?: number
  /** Attempts after the first, which are charged once; default 2, at most 10. */
  retries?: number
  /** The decision on attempts while weir does not answer; default `deny`. */
  whenDown?: 'deny' | 'allow'
  /** The most calls that wait for weir; whenDown decides further ones. Default 10,000. */
  maxPending?: number
  /** Calls in a row without an answer, after which only one now and then is tried; default 5, 0 = never. */
  breaker?: number
}

export type ErrorKind = 'input' | 'auth' | 'unavailable' | 'settled' | 'expired' | 'protocol'

/** A call without a decision. A denial is no error. */
export class WeirError extends Error {
  readonly name: 'WeirError'
  readonly kind: ErrorKind
  /** `WEIR_` and the kind in capitals. */
  readonly code: string
}

/** A value for each dimension of the policy, each of 1 to 1,024 bytes in UTF-8. */
export type Key = Readonly<Record<string, string>>

/** The answer to an attempt or a peek. */
export interface Decision {
  /** Whether the attempt was granted; with `batch: partial` also in part. */
  allowed: boolean
  /** Units that were granted. */
  granted: number
  /** Units that fit now, the least over all limits; may be below 0. */
  remaining: number
  /** Milliseconds until the same attempt is granted in full; 0 = now, Infinity = never. */
  retryAfterMs: number
  /** Milliseconds until no unit counts any more. */
  resetAfterMs: number
  /** Of `wait`: milliseconds from the answer on until the use begins. */
  startAfterMs: number
  /** Of `wait`: that instant by weir's clock, in microseconds since 1970; 0 of a replay. */
  startAt: number
  /** The name of the limit that denied; `''` if none did. */
  limit: string
  /** The instant of the decision by weir's clock, in microseconds since 1970. */
  at: number
  /** An operation with this id was made before; nothing was charged again. */
  replayed: boolean
  /** A denial that weir repeats from memory, for at most 100 ms. */
  cached: boolean
  /** Weir could not decide: a fallback of weir did, or whenDown of this client. */
  degraded: boolean
  /** The reason, if whenDown of this client decided. */
  error: WeirError | undefined
}

export interface Settlement {
  reserved: number
  actual: number
  refunded: number
  recorded: number
}

export interface Extension {
  /** Whether the further units were granted. */
  allowed: boolean
  /** Units that are reserved now. */
  units: number | undefined
  /** Milliseconds until further units fit that did not. */
  retryAfterMs: number
}

export interface TakeOptions {
  /** Units, 0 to 2^51 − 1; default 1. 0 changes nothing. */
  n?: number
  /** An idempotency key of 1 to 128 bytes: a repeated call with it is charged once. */
  id?: string
}

export interface WaitOptions extends TakeOptions {
  /**
   * The longest wait in milliseconds; most: `max-wait` of the policy, by default its longest window.
   * Default of `wait`: Infinity, which stands for the most. `reserve` does not wait without it.
   */
  maxWaitMs?: number
  /** Ends the wait, and gives the units back. */
  signal?: AbortSignal
}

export interface ReserveOptions extends WaitOptions {
  /** Milliseconds until the reservation expires; default and most: the longest window. */
  ttlMs?: number
}

/** The calls of one policy. */
export class Limiter {
  readonly name: string
  private constructor()
  /** Attempts n units and charges them if they fit. */
  take(key?: Key, options?: TakeOptions): Promise<Decision>
  /** The decision that take would get now, without a change. */
  peek(key?: Key, options?: { n?: number }): Promise<Decision>
  /** Takes n units at the first instant at which they fit, and resolves then. */
  wait(key?: Key, options?: WaitOptions): Promise<Decision>
  /** Takes back n units, by default 1, of a grant, and returns how many; 0 if whenDown granted. */
  refund(key: Key, grant: Decision | number, options?: TakeOptions): Promise<number>
  /** Adds n units that were used already, without a decision. */
  record(key?: Key, options?: TakeOptions): Promise<Decision>
  /** The units that a rolling limit recorded in the last milliseconds. */
  count(key: Key, lastMs: number, options?: { limit?: string }): Promise<number>
  /** Forgets the histories of a key. */
  reset(key?: Key, options?: { limits?: string[] }): Promise<{ reset: string[]; kept: string[] }>
  /** Denies a key for so many milliseconds; 0 ends the block. */
  block(
    key: Key,
    ms: number,
    options?: { limits?: string[] },
  ): Promise<{ limits: string[]; blockedUntil: number }>
  /** Attempts an estimate that is settled later with the units really used. */
  reserve(key?: Key, options?: ReserveOptions): Promise<Reservation>
}

/** An attempt that is settled once. One that is not allowed needs no settlement. */
export class Reservation {
  private constructor()
  readonly allowed: boolean
  /** Undefined for one of `weir.reservation`. */
  readonly decision: Decision | undefined
  /** Text that names the reservation in any process; undefined if weir opened none. */
  readonly id: string | undefined
  /** Units that are reserved; undefined if they are not known here. */
  readonly units: number | undefined
  readonly expiresAt: Date | undefined
  /** With a concurrency limit, the end of the hold. */
  readonly heldUntil: Date | undefined
  /** Corrects the charge to the units that were used, and ends holds. */
  settle(actual: number): Promise<Settlement>
  /** Ends holds and keeps the charge. */
  done(): Promise<Settlement>
  /** Gives everything back. */
  cancel(): Promise<Settlement>
  /** Renews the reservation and its hold from now on. */
  extend(): Promise<Extension>
  /** Takes n more units, all or none, and renews the reservation. */
  add(n: number): Promise<Extension>
  /** Ends an open reservation with `done`: `await using job = await limiter.reserve(…)`. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface Weir {
  on(event: 'down', listener: (error: WeirError) => void): this
  on(event: 'up', listener: () => void): this
  once(event: 'down', listener: (error: WeirError) => void): this
  once(event: 'up', listener: () => void): this
}

/** A connection to `weir serve`. */
export class Weir extends EventEmitter {
  constructor(options?: WeirOptions | string)
  /** A limiter with its limit in the code, such as `'10 per minute per user, 3s apart'`. */
  limit(text: string | string[], options?: { name?: string }): Limiter
  /** A limiter with a policy of the server's file. */
  policy(name: string): Limiter
  /** A reservation that another process has opened, by its id. */
  reservation(id: string): Reservation
  /** Ends the connections. Calls without an answer fail. */
  close(): void
}
