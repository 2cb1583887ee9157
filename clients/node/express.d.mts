export * from './express.js'
export { default } from './express.js'
