export * from './fastify.js'
export { default } from './fastify.js'
