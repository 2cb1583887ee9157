// An Express application that limits the requests of each client address, and of each user. A gate
// of `weir serve --gate-id-header X-Request-Id` decides: docs/http-api.md, ANY /gate/{policy}.
import { randomUUID } from "node:crypto";
import express from "express";

// setting reads an environment variable whose value must match form.
function setting(name, initial, form, sentence) {
  const value = process.env[name] ?? initial;
  if (!form.test(value)) throw new Error(`${name} must be ${sentence}, not "${value}"`);
  return value;
}
const weir = setting("WEIR", "127.0.0.1:7070", /^([\w.-]+|\[[\da-f:]+\]):\d+$/i,
  "host:port, such as 127.0.0.1:7070, without http:// and path");
const timeout = Number(setting("WEIR_TIMEOUT_MS", "250", /^[1-9]\d{0,4}$/,
  "milliseconds, 1 to 99999")); // for each of two answers
const down = setting("WEIR_DOWN", "deny", /^(deny|allow)$/,
  "deny or allow"); // the decision if both are missing

const app = express();
// Behind a proxy: app.set("trust proxy", 1) makes req.ip the address that the proxy adds to
// X-Forwarded-For. Without a proxy, clients could forge that field.

// key is the key in the form of a query, which encodes it as UTF-8. A header field could not hold
// 张三, and would change Jürgen: only the address stands in one.
async function ask(policy, key, req) {
  for (const [name, value] of Object.entries(key)) { // requests without a login share no history
    if (typeof value !== "string" || value === "") throw new TypeError(`${name} must be text`);
  }
  const url = `http://${weir}/gate/${policy}?${new URLSearchParams(key)}`;
  // A retry has the same id, so it is not charged again. Clients must not choose the id.
  const headers = new Headers({ "Client-Address": req.ip, "X-Request-Id": randomUUID() });
  const forwarded = req.get("X-Forwarded-For"); // with it weir finds a missing "trust proxy"
  if (forwarded) headers.set("X-Forwarded-For", forwarded);
  const request = new Request(url, { headers }); // throws if a value fits no header field
  const send = async () => {
    const answer = await fetch(request, { signal: AbortSignal.timeout(timeout) });
    return { status: answer.status, fields: answer.headers, body: await answer.text() };
  };
  const lost = (err) => {
    const code = err.name === "TimeoutError" ? err.name : err.cause?.code;
    // An answer that is not HTTP, or a port that fetch rejects, is no outage.
    if (!code || code.startsWith("HPE_")) throw err;
    return { status: 0, fields: new Headers(), body: err.cause?.message || code };
  };
  return send().catch(send).catch(lost);
}

const limit = (policy, keyOf) => async (req, res, next) => {
  const { status, fields, body } = await ask(policy, keyOf(req), req);
  for (const name of ["RateLimit-Policy", "RateLimit", "Retry-After"]) {
    if (fields.has(name)) res.set(name, fields.get(name));
  }
  if (status === 429) {
    res.set({ "Content-Type": "application/problem+json", "Cache-Control": "no-store" });
    return res.status(429).send(body);
  }
  if (status !== 204) {
    console.error(`no decision from weir at ${weir}: ${status} ${body}`);
    // A wrong policy or secret must not open the door. 400: the name is too long, for example.
    if (status !== 0 || down !== "allow") return res.sendStatus(status === 400 ? 400 : 503);
  }
  next();
};

const byAddress = limit("search", () => ({ "address.ip": "Client-Address" }));
const byUser = limit("demo", (req) => ({ user: req.params.name }));
app.get("/", byAddress, (req, res) => res.send("Hello.\n"));
app.get("/users/:name", byUser, (req, res) => res.send("Hello.\n"));
app.listen(process.env.PORT ?? 8080, "127.0.0.1");
