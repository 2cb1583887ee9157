"""A Flask application that limits the requests of each client address, and of each user. Its
policies are those of `weir serve`: docs/python.md."""
from flask import Flask, abort
from weirlimit import Weir
from weirlimit.wsgi import LimitMiddleware

app = Flask(__name__)
weir = Weir("redis://127.0.0.1:7073")
app.wsgi_app = LimitMiddleware(app.wsgi_app, weir.policy("search"))  # behind a proxy: proxies=1
app.get("/")(lambda: "Hello.\n")


@app.get("/users/<name>")
def user(name):
    return "Hello.\n" if weir.policy("demo").take({"user": name}) else abort(429)
