import type { Weir, WeirOptions } from './index.js'

export interface WeirStoreOptions extends WeirOptions {
  /** A client. Without it, its options stand beside these. */
  weir?: Weir
  /** The beginning of the names under which requests count; default `fastify`. */
  name?: string
}

interface Store {
  incr(
    key: string,
    done: (err: Error | null, result?: { current: number; ttl: number }) => void,
    timeWindow: number,
    max: number,
  ): void
  read(
    key: string,
    done: (err: Error | null, result?: { current: number; ttl: number }) => void,
    timeWindow: number,
    max: number,
  ): void
  child(params: any): Store
}

/** A store class for @fastify/rate-limit: `store: weirStore({ url: 'redis://127.0.0.1:7073' })`. */
export function weirStore(options?: WeirStoreOptions | string): new (params: any) => Store
export default weirStore
