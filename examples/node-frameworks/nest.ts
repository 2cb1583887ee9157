// A Nest application with a guard that limits the requests of each client address.
import 'reflect-metadata'
import { CanActivate, Controller, ExecutionContext, Get, HttpException, Injectable, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { Weir } from 'weirlimit'

const limiter = new Weir({ url: 'redis://127.0.0.1:7073' }).limit('5 per minute per ip')

@Injectable()
class LimitGuard implements CanActivate {
  async canActivate(context: ExecutionContext) {
    const http = context.switchToHttp()
    const d = await limiter.take({ ip: http.getRequest().ip })
    if (d.allowed) return true
    if (Number.isFinite(d.retryAfterMs)) {
      http.getResponse().set('Retry-After', String(Math.ceil(d.retryAfterMs / 1000)))
    }
    throw new HttpException('Too many requests', d.error ? 503 : 429)
  }
}

@Controller()
class HelloController {
  @Get()
  hello() {
    return 'hello\n'
  }
}

@Module({ controllers: [HelloController], providers: [{ provide: APP_GUARD, useClass: LimitGuard }] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false })
await app.listen(process.env.PORT ?? 8080)
