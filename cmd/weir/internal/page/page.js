// The operators' page. Texts come in as text nodes only, and each number is shown as the API has
// it. A view is built once; update changes what differs, so focus and selection stay.
(() => {
  const { TICKS, add, copy, lasting, n, short, theme } = look;
  const byId = (id) => document.getElementById(id);
  const main = byId('main');

  // ---- Texts and elements

  // visible writes characters that are invisible, or change the direction of writing, as escapes.
  const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]|(?! )\p{Zs}/gu;
  const escape = (c) => {
    const hex = c.codePointAt(0).toString(16);
    return hex.length > 4 ? '\\u{' + hex + '}' : '\\u' + hex.padStart(4, '0');
  };
  const visible = (text) => String(text).replace(HIDDEN, escape);
  const has = (key, name) => Object.hasOwn(key, name); // a dimension may be called constructor

  // el makes an element. Children are elements, texts, or nothing.
  function el(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) {
      if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
      else if (v === true) e.setAttribute(k, '');
      else if (v !== false && v !== undefined) e.setAttribute(k, v);
    }
    e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
    return e;
  }

  // put changes a text only if it differs: a screen reader speaks each change of a live region.
  function put(e, text) {
    if (e.textContent !== text) e.textContent = text;
  }

  const button = (text, onclick, kind) => el('button', { type: 'button', class: kind, onclick }, text);
  const link = (text, hash) => el('a', { href: '#/' + hash }, text);
  const badge = (text, kind) => el('span', { class: 'badge ' + (kind || '') }, text);
  const bdi = (text) => el('bdi', {}, visible(text));

  // exact shows a number of the API, which is a text if it is long.
  const exact = (x) => n(typeof x === 'string' ? BigInt(x) : x);

  // span is a time by its two greatest units, such as 9 min 54 s.
  const ALONE = { day: '1 day', hour: '1 h', minute: '1 min', second: '1 s', ms: '1 ms' };
  function span(ms) {
    if (ms < 1) return 'less than 1 ms';
    const text = lasting(Math.round(ms));
    return ALONE[text] || text.split(' ').slice(0, 4).join(' ');
  }

  // clockTime is an instant by the clock of this computer, with the day if it is another one.
  function clockTime(at) {
    const t = new Date(at), today = new Date();
    const time = t.toLocaleTimeString('en-GB');
    return t.toDateString() === today.toDateString() ? time : t.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' }) + ', ' + time;
  }

  // pairs shows a key as name=value, in the order of names.
  function pairs(key, names) {
    const all = (names || []).filter((name) => has(key, name)).concat(Object.keys(key).filter((name) => !(names || []).includes(name)));
    if (all.length === 0) return [el('span', { class: 'soft' }, 'all callers together')];
    return all.map((name) => el('span', { class: 'pair' }, visible(name) + '=', bdi(key[name])));
  }

  // rows makes the children of parent those of a list. A row that stays is updated, not replaced.
  function rows(parent, list, idOf, make) {
    const known = parent.rowsById || new Map(), next = new Map();
    list.forEach((one, i) => {
      let id = idOf(one);
      while (next.has(id)) id += ' again'; // two long keys may be shown alike
      const row = known.get(id) || make(one);
      next.set(id, row);
      if (parent.children[i] !== row.element) parent.insertBefore(row.element, parent.children[i] || null);
      row.change(one);
    });
    while (parent.children.length > list.length) parent.lastElementChild.remove();
    parent.rowsById = next;
  }

  // table returns a table with a body for rows. A head that begins with a blank is left-aligned.
  function table(label, heads, kind) {
    const body = el('tbody');
    const head = heads.map((h) => el('th', { scope: 'col', class: h.startsWith(' ') ? 'text' : undefined }, h.trim()));
    const all = el('div', { class: 'scroll', role: 'region', 'aria-label': label, tabindex: '0' },
      el('table', { class: kind }, el('thead', {}, el('tr', {}, head)), body));
    return { all, body };
  }

  // ---- Notices

  const notices = new Map();

  // say shows a sentence until it is taken back, or for some seconds.
  function say(id, text, { bad = false, seconds = 0 } = {}) {
    const old = notices.get(id);
    if (!text) {
      if (old) old.remove();
      notices.delete(id);
      return;
    }
    const e = old || el('p');
    e.className = 'notice' + (bad ? ' bad' : '');
    put(e, visible(text));
    if (!old) byId('notices').append(e);
    notices.set(id, e);
    if (seconds) setTimeout(() => { if (notices.get(id) === e && e.textContent === visible(text)) say(id, ''); }, seconds * 1000);
  }

  // ---- The API

  // A Failure is a sentence for people. Status 0 means that there was no answer.
  class Failure extends Error {
    constructor(status, message) {
      super(message);
      this.status = status;
    }
  }

  // parse keeps integers exact: those that a number may round become texts.
  const LONG = /"(?:[^"\\]|\\.)*"|(?<![\w.+-])-?\d{16,}(?=\s*[,\]}])/g;
  const parse = (text) => JSON.parse(text.replace(LONG, (m) => (m[0] === '"' ? m : '"' + m + '"')));

  let token = '', lacksToken = false;
  const headers = (more) => ({ ...(token ? { Authorization: 'Bearer ' + token } : {}), ...more });
  const sentence = (text) => (/[.!?]$/.test(text) ? text : text + '.');

  // send returns an answer of any status. body is JSON.
  // over is the version that a change replaces, null for none.
  async function send(method, path, { body, accept, over, signal } = {}) {
    const more = {};
    if (body !== undefined) more['Content-Type'] = 'application/json';
    if (accept) more.Accept = accept;
    if (over) more['If-Match'] = JSON.stringify(over);
    if (over === null) more['If-None-Match'] = '*';
    const sent = token;
    let fields;
    try {
      fields = new Headers(headers(more));
    } catch (e) {
      askToken('weir rejects this token: it has a character that no token has.');
      throw new Failure(401, 'weir requires a token.');
    }
    try {
      return Object.assign(await fetch(path, { method, body, headers: fields, cache: 'no-store', referrerPolicy: 'no-referrer', signal: signal || AbortSignal.timeout(15000) }), { sent });
    } catch (e) {
      throw new Failure(0, 'weir does not answer at ' + location.host + '.');
    }
  }

  // read returns the content of an answer, or throws the sentence of its problem document.
  async function read(answer) {
    let text, content;
    try {
      text = await answer.text();
    } catch (e) {
      throw new Failure(0, 'The answer of weir broke off.');
    }
    try {
      content = text === '' ? {} : parse(text);
    } catch (e) {
      throw new Failure(answer.status, 'The answer with status ' + answer.status + ' is not one of weir’s; is a proxy in between?');
    }
    if (answer.status === 401) {
      if (!lacksToken && answer.sent === token) {
        askToken((token ? 'weir rejects this token: it is wrong, or no longer valid.' : 'weir requires a token here.') +
          ' It is the one of --admin-token-file, without that file the one of --token-file.');
      }
      throw new Failure(401, 'weir requires a token.');
    }
    if (!answer.ok) throw new Failure(answer.status, sentence(content.detail || 'weir answers with status ' + answer.status));
    return content;
  }

  async function call(method, path, options) {
    return read(await send(method, path, options));
  }
  const get = (path) => call('GET', path);

  // query writes a key for a path. Each name has the prefix that no setting has.
  const query = (key, more = []) => new URLSearchParams([...Object.entries(key).map(([k, v]) => ['key.' + k, v]), ...more]).toString();
  const keysPath = (policy) => 'v1/keys/' + encodeURIComponent(policy);
  const overridesPath = (policy) => 'v1/overrides/' + encodeURIComponent(policy);

  // ---- The token

  const tokenForm = byId('token').querySelector('form');

  function askToken(reason) {
    lacksToken = true;
    token = '';
    stats = null;
    main.hidden = true;
    put(byId('token-reason'), reason);
    if (byId('token').hidden) {
      byId('token').hidden = false;
      tokenForm.elements.token.focus();
    }
    showState();
  }

  tokenForm.addEventListener('submit', (e) => {
    e.preventDefault();
    token = tokenForm.elements.token.value.trim();
    tokenForm.reset();
    lacksToken = false;
    byId('token').hidden = true;
    main.hidden = false;
    wake();
    open();
  });

  // ---- Live updates

  let stats = null, policies = null, served = '', author = '';
  let isLive = true, wait = 0, awake = null, stream = null;

  // wake ends a pause between two attempts.
  const wake = () => { if (awake) awake(); };
  const sleep = (ms) => new Promise((done) => {
    const timer = ms < Infinity ? setTimeout(done, ms) : 0;
    awake = () => { clearTimeout(timer); done(); };
  });
  const isIdle = () => !isLive || document.hidden || lacksToken;

  // follow reads server-sent events until they end. Without any for a while it gives up.
  async function follow() {
    stream = new AbortController();
    const late = () => stream.abort();
    let timer = setTimeout(late, 8000);
    try {
      const answer = await send('GET', 'v1/stats', { accept: 'text/event-stream', signal: stream.signal });
      if (!answer.ok || !(answer.headers.get('Content-Type') || '').startsWith('text/event-stream')) return await read(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        text += value;
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const event = text.slice(0, end);
          text = text.slice(end + 2);
          if (event.startsWith('data: ')) await refresh(parse(event.slice(6)));
          clearTimeout(timer);
          timer = setTimeout(late, 8000);
        }
      }
    } finally {
      clearTimeout(timer);
      stream = null;
    }
  }

  // run keeps the page up to date. Where events do not arrive, it asks for the numbers instead.
  async function run() {
    for (;;) {
      if (isIdle()) {
        showState();
        await sleep(Infinity);
        continue;
      }
      try {
        await follow();
      } catch (e) { /* the next request finds the reason */ }
      if (isIdle()) continue;
      try {
        await refresh(await get('v1/stats'));
        await sleep(2000);
      } catch (e) {
        if (e.status === 401) continue;
        wait = Math.min(Math.max(wait * 2, 1000), 15000);
        say('away', e.message + ' The numbers are old; the page tries again every ' + span(wait) + '.', { bad: true });
        showState();
        await sleep(wait);
      }
    }
  }

  // refresh shows new numbers.
  async function refresh(next) {
    stats = next;
    wait = 0;
    say('away', '');
    const ahead = Date.parse(stats.at) - Date.now();
    say('clock', Math.abs(ahead) < 90000 ? '' :
      'The clock of weir is ' + span(Math.round(Math.abs(ahead) / 60000) * 60000) + (ahead > 0 ? ' ahead of' : ' behind') +
      ' the clock of this computer. Instants are those of weir.', { bad: true });
    say('down', stats.server.store_down ? 'The store is unavailable: ' + sentence(stats.server.store_down) : '', { bad: true });
    say('reload', stats.server.last_reload && !stats.server.last_reload.ok ?
      'The last reload failed, and the policies before it stay: ' + sentence(stats.server.last_reload.error) : '', { bad: true });
    say('drain', stats.server.ready ? '' : 'This weir stops: ' + sentence(stats.server.why || 'it is not ready'), { bad: true });
    await load();
    showState();
    if (view) await attempt(view.update);
  }

  // load reads the policies, again after a reload or a start of the server.
  async function load() {
    const now = stats.health.started + ' ' + stats.server.generation;
    if (policies && served === now) return;
    policies = (await get('v1/policies')).policies;
    served = now;
  }

  function showState() {
    let text = '';
    if (lacksToken) text = 'waits for a token';
    else if (notices.has('away')) text = 'no answer';
    else if (!isLive) text = 'paused' + (stats ? ', ' + clockTime(stats.at) : '');
    else if (stats) text = 'live, ' + clockTime(stats.at);
    put(byId('state'), text);
    byId('pause').hidden = lacksToken;
    put(byId('pause'), isLive ? 'Pause' : 'Continue');
  }

  byId('pause').addEventListener('click', () => {
    isLive = !isLive;
    say('paused', isLive ? '' : 'Live updates are paused.');
    if (!isLive && stream) stream.abort();
    wake();
    showState();
  });
  document.addEventListener('visibilitychange', () => { // a browser has few connections for all tabs
    if (document.hidden && stream) stream.abort();
    wake();
  });
  addEventListener('online', wake);

  // attempt shows the failure of a step as a sentence of its own.
  async function attempt(step, id = 'failed') {
    try {
      await step();
      say(id, '');
      return true;
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      if (e.status !== 401) say(id, e.message, { bad: true });
      return false;
    }
  }

  // ---- Dialogs

  // ask opens a dialog with the fields of a form; act gets the form, and its failure stays there.
  function ask(title, label, kind, fields, act) {
    const fault = el('p', { role: 'alert', class: 'denied-word' });
    const submit = el('button', { type: 'submit', class: kind }, label);
    const form = el('form', {}, el('h2', { id: 'dialog-title' }, title), fields, fault,
      el('div', { class: 'row' }, button('Cancel', () => dialog.close()), submit));
    const dialog = el('dialog', { 'aria-labelledby': 'dialog-title' }, form);
    form.addEventListener('submit', async (e) => {
      e.preventDefault();
      submit.disabled = true;
      try {
        const done = await act(form.elements);
        dialog.close();
        say('done', done, { seconds: 8 });
        if (view) await attempt(view.update);
      } catch (e) {
        if (!(e instanceof Failure)) throw e;
        put(fault, visible(e.message));
        submit.disabled = false;
      }
    });
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  const input = (label, attributes) => el('label', {}, label, ' ', el('input', { autocomplete: 'off', spellcheck: 'false', ...attributes }));
  const select = (label, name, options, chosen) => el('label', {}, label, ' ',
    el('select', { name }, options.map(([value, text]) => el('option', { value, selected: value === chosen }, visible(text)))));
  const checkbox = (label, name, value, checked) => el('label', { class: 'check' }, el('input', { type: 'checkbox', name, value, checked }), visible(label));

  // keyForm is a form for a policy and a key; values of the key have the names key.NAME. If it is for
  // some values, others may be missing.
  function keyForm(chosen, key, more, label, act, isForSome) {
    const names = policies.map((p) => p.name);
    const inputs = el('div', { class: 'joined' });
    const pick = select('Policy', 'policy', names.map((name) => [name, name]), chosen);
    const box = pick.querySelector('select');
    const dims = () => {
      const p = policies.find((p) => p.name === box.value);
      const all = p ? p.dimensions.concat(p.plan_by && !p.dimensions.includes(p.plan_by) ? [p.plan_by] : []) : [];
      inputs.replaceChildren(...all.map((name) => input(visible(name) + (p.dimensions.includes(name) ? '' : ' (chooses the plan)'),
        { name: 'key.' + name, value: has(key, name) ? key[name] : undefined, required: !isForSome && p.dimensions.includes(name), maxlength: 1024 })));
    };
    dims();
    box.addEventListener('change', dims);
    const form = el('form', { class: 'card' }, el('div', { class: 'fields' }, pick, inputs, more, el('button', { type: 'submit', class: 'main' }, label)));
    const read = () => ({
      policy: box.value,
      key: Object.fromEntries([...inputs.querySelectorAll('input')].filter((i) => i.value !== '').map((i) => [i.name.slice(4), i.value])),
    });
    form.addEventListener('submit', (e) => { e.preventDefault(); act(read(), form); });
    return { form, read, box };
  }

  // keyHash is the address of the view of a key.
  const keyHash = (policy, key) => 'key/' + encodeURIComponent(policy) + '?' + new URLSearchParams(key);

  // ---- View: policies

  const COUNTS = [['allowed', 'Allowed'], ['waiting', 'of these, waiting'], ['denied', 'Denied'], ['would_deny', 'Denied in shadow'], ['errors', 'Without decision']];

  // drawSteps draws the recent counts by steps, as one path for each count.
  function drawSteps(svg, steps, stepMS) {
    const total = svg.clientWidth || 680, top = 18, height = 56, bottom = top + height;
    const all = (name) => (steps && steps[name] || []).map(Number);
    const count = 180, series = { allowed: all('allowed'), waiting: all('waiting'), denied: all('denied'), would: all('would_deny'), fault: all('errors') };
    const at = (name, i) => series[name][i] || 0;
    let most = 0;
    for (let i = 0; i < count; i++) most = Math.max(most, at('allowed', i) + at('denied', i) + at('would', i) + at('fault', i));
    const path = { calm: '', waiting: '', would: '', heavy: '', fault: '' }, step = total / count;
    for (let i = 0; i < count; i++) {
      let y = bottom;
      const bar = (name, k) => {
        if (k <= 0) return;
        const h = Math.max(k / most * height, 1.5);
        y -= h;
        path[name] += 'M' + (i * step).toFixed(1) + ' ' + y.toFixed(1) + 'h' + Math.max(step - 0.6, 0.8).toFixed(1) + 'v' + h.toFixed(1) + 'h' + (-Math.max(step - 0.6, 0.8)).toFixed(1) + 'z';
      };
      bar('calm', at('allowed', i) - at('waiting', i));
      bar('waiting', at('waiting', i));
      bar('would', at('would', i));
      bar('heavy', at('denied', i));
      bar('fault', at('fault', i));
    }
    svg.replaceChildren();
    add(svg, 'line', { x1: 0, x2: total, y1: bottom, y2: bottom, class: 'base' });
    for (const name in path) if (path[name]) add(svg, 'path', { class: name, d: path[name] });
    add(svg, 'text', { x: 0, y: bottom + 16 }, span(count * stepMS) + ' ago');
    add(svg, 'text', { x: total, y: bottom + 16, 'text-anchor': 'end' }, 'now');
    if (most > 0) add(svg, 'text', { x: total, y: 11, 'text-anchor': 'end' }, 'at most ' + short(most) + ' in ' + span(stepMS));
    svg.setAttribute('height', bottom + 22);
    svg.setAttribute('viewBox', '0 0 ' + total + ' ' + (bottom + 22));
  }

  const KINDS = { rolling: 'rolling', fixed: 'fixed', fixed_from_first: 'fixed, from the first hit', bucket: 'bucket', concurrency: 'concurrency' };

  function limitItem(l, many) {
    return el('li', {}, many && [el('b', {}, visible(l.name)), ' '], el('code', {}, visible(l.sentence)),
      el('div', { class: 'soft small' }, (KINDS[l.kind] || l.kind) + (l.worst_case ? ': ' + l.worst_case : '')));
  }

  function policyCard(name) {
    const p = policies.find((p) => p.name === name);
    const values = {}, boxes = {};
    const numbers = el('dl', { class: 'numbers' }, COUNTS.map(([id, label]) => {
      values[id] = [el('span', { 'data-recent': id }), el('small', { 'data-total': id })];
      return boxes[id] = el('div', { class: 'is-' + id + (id === 'denied' ? ' heavy' : '') }, el('dt', {}, label), el('dd', {}, values[id]));
    }));
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), toOverrides = link('', 'overrides');
    svg.setAttribute('class', 'chart spark');
    svg.setAttribute('role', 'img');
    const element = el('section', { class: 'card', 'data-policy': name },
      el('h2', {}, bdi(name), p && p.shadow && badge('shadow: not enforced', 'watch'), p && p.count && badge('counts reports'), !p && badge('carried by calls')),
      p && p.about && el('p', { class: 'soft' }, visible(p.about)), numbers, svg,
      p && el('ul', { class: 'limits-list' }, p.limits.map((l) => limitItem(l, p.limits.length > 1))),
      p && p.plans && el('details', {}, el('summary', {}, n(p.plans.length) + (p.plans.length === 1 ? ' plan' : ' plans') + ', chosen by ' + visible(p.plan_by)),
        p.plans.map((plan) => [el('h3', {}, visible(plan.name)), el('ul', { class: 'limits-list' }, plan.limits.map((l) => limitItem(l, true)))])),
      p && el('div', { class: 'links' }, link('Its keys', 'keys?policy=' + encodeURIComponent(name)), link('Look a key up', 'key/' + encodeURIComponent(name)), link('Try it', 'try?policy=' + encodeURIComponent(name)), toOverrides));
    let last = '';
    const change = () => {
      const now = policies.find((p) => p.name === name), many = now && now.overrides || 0;
      put(toOverrides, n(many) + (many === 1 ? ' override' : ' overrides'));
      toOverrides.hidden = many === 0;
      const of = stats.policies.find((s) => s.policy === name);
      const zero = { allowed: 0, denied: 0, would_deny: 0, waiting: 0, errors: 0 };
      const total = of ? of.total : zero, recent = of ? of.recent : zero;
      for (const [id] of COUNTS) {
        const isUsual = id === 'allowed' || id === 'denied' || id === 'would_deny' && p && p.shadow;
        boxes[id].hidden = !isUsual && Number(total[id]) === 0;
        put(values[id][0], recent ? exact(recent[id]) : 'not kept');
        put(values[id][1], exact(total[id]) + ' since the start');
      }
      const text = JSON.stringify(of || null) + svg.clientWidth;
      if (text === last) return;
      last = text;
      svg.toggleAttribute('hidden', !of || !of.steps || Object.keys(of.steps).length === 0);
      drawSteps(svg, of && of.steps, stats.step_ms);
      svg.setAttribute('aria-label', recent ? 'The last 15 minutes of ' + visible(name) + ': ' + COUNTS.map(([id, label]) => exact(recent[id]) + ' ' + label.toLowerCase()).join(', ') : '');
    };
    return { element, change };
  }

  // changeList shows the changes by the last reload.
  function changeList() {
    const list = el('ul', { class: 'changes' });
    const element = el('details', {}, el('summary', {}, 'What the last reload changed'), list);
    const change = () => {
      const all = stats.changes || [];
      element.hidden = all.length === 0;
      rows(list, all, (c) => c, (c) => ({ element: el('li', {}, visible(c)), change() {} }));
    };
    return { element, change };
  }

  const policiesView = {
    title: 'Policies',
    build() {
      const top = denialsTable('Keys denied most', 'Nothing was denied in the last ten minutes.', 5);
      const list = el('div'), summary = el('p', { class: 'lead' }), changes = changeList();
      main.append(el('h1', { tabindex: '-1' }, 'Policies'), summary, changes.element,
        el('section', { class: 'card' }, el('h2', {}, 'Denied lately'), top.element, el('div', { class: 'links' }, link('All keys', 'keys'))), list);
      return async () => {
        policies = (await get('v1/policies')).policies; // with the numbers of overrides now
        const names = policies.map((p) => p.name);
        const inline = stats.policies.map((s) => s.policy).filter((name) => !names.includes(name));
        put(summary, 'Decisions of the last 15 minutes, from ' + visible(stats.server.source) + ', in force since ' + clockTime(stats.server.since) + '.');
        changes.change();
        rows(list, names.concat(inline), (name) => served + ' ' + name, policyCard);
        top.change(await get('v1/top?n=5'));
      };
    },
  };

  // ---- View: keys

  // canLook reports whether the API has the whole key of a row.
  const canLook = (top, one) => top.keys === 'shown' && !one.clipped && !one.rule && policies.some((p) => p.name === one.policy);


  function keyCells(top, list, one) {
    const p = policies.find((p) => p.name === one.policy);
    const content = pairs(one.key, p && p.dimensions);
    return [
      el('td', { class: 'text wrap' }, bdi(one.policy), one.rule && [': ', bdi(one.rule)]),
      el('td', { class: 'key text' }, canLook(top, one) ? el('a', { href: '#/' + keyHash(one.policy, one.key) }, content) : content, one.clipped && ' …', p && p.shadow && list === 'top' && [' ', badge('shadow', 'watch')], one.override && [' ', badge('override', 'good')]),
    ];
  }

  // countTable is a table of keys with their counts, which member names.
  function countTable(label, none, member, list, head, most) {
    const empty = el('p', { class: 'empty' }, none), t = table(label, [' Policy', ' Key', head], 'keys');
    const change = (top) => {
      const all = top[list].slice(0, most);
      put(empty, top.keys === 'off' ? 'Keys are not kept: weir serve runs with --top-keys off.' : none);
      empty.hidden = all.length > 0;
      t.all.hidden = all.length === 0;
      rows(t.body, all, (one) => JSON.stringify([one.policy, one.rule, one.key, one.clipped, one.override, top.keys]), (one) => {
        const count = el('span'), error = el('span', { class: 'soft small' });
        const element = el('tr', {}, keyCells(top, list, one), el('td', { class: list === 'top' ? 'denied' : '' }, count, error));
        const change = (now) => {
          put(count, exact(now[member]));
          put(error, Number(now.error) === 0 ? '' : ', too high by at most ' + exact(now.error));
        };
        return { element, change };
      });
    };
    return { element: el('div', {}, empty, t.all), change };
  }
  const denialsTable = (label, none, most) => countTable(label, none, 'denials', 'top', 'Denials', most);


  const keysView = {
    title: 'Keys',
    build(route) {
      const chosen = route.params.get('policy') || '';
      const names = [['', 'all policies'], ...policies.map((p) => [p.name, p.name])];
      const gone = chosen && !names.some(([name]) => name === chosen);
      const pick = select('Show', 'policy', names, chosen);
      pick.querySelector('select').addEventListener('change', (e) => go('keys' + (e.target.value ? '?policy=' + encodeURIComponent(e.target.value) : '')));
      const since = el('p', { class: 'lead' });
      const denied = denialsTable('Keys denied most', 'Nothing was denied in the last ten minutes.', 50);
      const used = countTable('Keys used most', 'Nothing was allowed in the last ten minutes.', 'uses', 'used', 'Uses', 50);
      const estimate = el('p', { class: 'soft small' });
      const search = keyForm(chosen || (policies[0] || {}).name, {}, null, 'Look up', ({ policy, key }) => go(keyHash(policy, key)));
      search.form.prepend(el('h2', {}, 'Look a key up'));
      main.append(el('h1', { tabindex: '-1' }, 'Keys'), since, gone ? policyGone(chosen) : el('div', { class: 'fields alone' }, pick),
        policies.length > 0 ? search.form : '',
        el('section', { class: 'card' }, el('h2', {}, 'Denied most'), denied.element),
        el('section', { class: 'card' }, el('h2', {}, 'Used most'), used.element, estimate));
      return async () => {
        if (gone) return;
        const top = await get('v1/top?n=50' + (chosen ? '&policy=' + encodeURIComponent(chosen) : ''));
        put(since, (top.since ? 'Counted since ' + clockTime(top.since) + '. ' : '') + (top.keys === 'hashed' ? 'Values are shown as hashes.' : 'A key leads to its history.'));
        denied.change(top);
        used.change(top);
        put(estimate, top.used_sample ? 'The uses of a busy policy are estimates, by one call in ' + exact(top.used_sample) + '.' : '');
      };
    },
  };

  const policyGone = (name) => el('p', { class: 'notice bad' }, 'There is no policy ', bdi(name), ' any more. ', link('The policies in force', 'policies'));

  // ---- View: one key

  // ticks are the instants of an axis relative to now.
  function drawTimes(svg, from, to, at, left, right, bottom, x) {
    const every = TICKS.find((ms) => ms * (right - left) / (to - from) >= 88) || TICKS[TICKS.length - 1];
    for (let ms = Math.ceil((from - at) / every) * every; at + ms <= to; ms += every) {
      const px = x(at + ms);
      add(svg, 'line', { x1: px, x2: px, y1: bottom, y2: bottom + 5, class: 'base' });
      const anchor = px < left + 14 ? 'start' : px > right - 14 ? 'end' : 'middle';
      add(svg, 'text', { x: px, y: bottom + 20, 'text-anchor': anchor }, ms === 0 ? 'now' : (ms < 0 ? '−' : '+') + span(Math.abs(ms)));
    }
  }

  // drawLimit draws the history of a limit: entries, the edges of the window, and what is to come.
  function drawLimit(svg, l, at) {
    svg.replaceChildren();
    const total = svg.clientWidth || 680, left = 6, right = total - 6, top = 46, height = 84, bottom = top + height;
    const time = (t) => Date.parse(t), window = Number(l.window_ms);
    const { entries = [], appointments = [], holds = [] } = l;
    const isRolling = l.kind === 'rolling', hasWindow = isRolling || Boolean(l.window_end);
    const begin = l.window_start ? time(l.window_start) : at - window, end = l.window_end ? time(l.window_end) : at;
    const later = [l.room_at, l.blocked_until, l.window_end, ...appointments.map((a) => a.at), ...holds.map((h) => h.until)].filter(Boolean).map(time);
    const first = Math.min(hasWindow ? begin : at - window * 0.2, ...holds.map((h) => time(h.at)), ...entries.map((e) => time(e.at)));
    const last = Math.min(Math.max(at + window * 0.08, ...later), at + window * 12); // later instants are beyond the drawing
    const from = first - (last - first) * 0.04, to = last + (last - first) * 0.04;
    const x = (t) => left + (Math.min(Math.max(t, from), to) - from) / (to - from) * (right - left);
    if (hasWindow) add(svg, 'rect', { class: 'span', x: x(begin), y: top, width: x(end) - x(begin), height });
    if (l.blocked_until) add(svg, 'rect', { class: 'block', x: x(at), y: top, width: Math.max(x(time(l.blocked_until)) - x(at), 2), height });
    const most = Math.max(1, ...entries.concat(appointments).map((e) => Number(e.n)));
    const tall = (k) => Math.max(Math.sqrt(Number(k) / most) * (height - 8), 6);
    for (const e of entries) {
      const bar = add(svg, 'rect', { class: 'entry', x: x(time(e.at)) - 1.5, y: bottom - tall(e.n), width: 3, height: tall(e.n) });
      add(bar, 'title', {}, exact(e.n) + ' at ' + clockTime(e.at) + (isRolling ? ', leaves the window in ' + span(time(e.at) + window - at) : ''));
    }
    for (const a of appointments) {
      const bar = add(svg, 'rect', { class: 'booked', x: x(time(a.at)) - 2, y: bottom - tall(a.n), width: 4, height: tall(a.n) });
      add(bar, 'title', {}, exact(a.n) + ' begin at ' + clockTime(a.at));
    }
    holds.slice(0, 12).forEach((h, i) => {
      const y = bottom - 8 - i * 6.5, start = x(time(h.at));
      const bar = add(svg, 'line', { class: 'hold', x1: start, x2: Math.max(x(time(h.until)), start + 3), y1: y, y2: y });
      add(bar, 'title', {}, exact(h.n) + ' held until ' + clockTime(h.until));
    });
    add(svg, 'line', { x1: left, x2: right, y1: bottom, y2: bottom, class: 'base' });
    const label = (px, y, text, cls) => {
      const e = add(svg, 'text', { x: px, y, class: cls }, text), w = e.getComputedTextLength();
      e.setAttribute('x', Math.min(Math.max(px - w / 2, left), right - w));
    };
    const edge = (t) => add(svg, 'line', { class: 'edge', x1: x(t), x2: x(t), y1: top - 4, y2: bottom });
    if (hasWindow) {
      edge(begin);
      label(x(begin), 36, isRolling ? 'edge of the window' : 'begin of the window', '');
    }
    if (l.window_end) edge(end);
    if (holds.length > 0) label(Math.min(...holds.map((h) => x(time(h.at)))), 36, 'units in use', '');
    add(svg, 'line', { class: 'mark', x1: x(at), x2: x(at), y1: top - 4, y2: bottom });
    if (l.room_at && time(l.room_at) > at) {
      const px = x(time(l.room_at)), isBeyond = time(l.room_at) > last;
      if (!isBeyond) add(svg, 'line', { class: 'room', x1: px, x2: px, y1: top - 24, y2: bottom });
      label(px, 16, 'room in ' + span(time(l.room_at) - at) + (isBeyond ? ' →' : ''), 'room');
    }
    drawTimes(svg, from, to, at, left, right, bottom, x);
    svg.setAttribute('height', bottom + 26);
    svg.setAttribute('viewBox', '0 0 ' + total + ' ' + (bottom + 26));
    svg.setAttribute('aria-label', 'Time line of limit ' + visible(l.name) + ': ' + n(entries.length) + ' entries, ' + n(appointments.length) + ' appointments, ' + n(holds.length) +
      ' holds. The table after it has all.');
  }

  function limitCard(first) {
    const facts = el('dl', { class: 'facts' });
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('class', 'chart');
    svg.setAttribute('role', 'img');
    const t = table('Entries of ' + visible(first.name), [' What', ' Instant', 'Units', ' Note']), left = el('p', { class: 'soft small' });
    const title = el('h2', {}, bdi(first.name), badge(KINDS[first.kind] || first.kind));
    const binding = badge('this limit binds', 'heavy');
    const element = el('section', { class: 'card', 'data-limit': first.name }, title, facts, svg,
      el('details', {}, el('summary', {}, 'The same as a table'), left, t.all));
    const change = ([l, answer]) => {
      if (answer.limit === l.name) title.append(binding);
      else binding.remove();
      const at = Date.parse(answer.at), until = (t) => clockTime(t) + ', in ' + span(Date.parse(t) - at);
      const all = [['Used', exact(l.used) + ' of ' + exact(l.burst || l.max) + ', ' + exact(l.remaining) + ' remain']];
      if (l.key) all.push(['Counts', pairs(l.key)]);
      if (l.blocked_until) all.push(['Blocked until', until(l.blocked_until)]);
      all.push(['Room for one', !l.room_at ? 'never' : Date.parse(l.room_at) <= at ? 'now' : 'at ' + until(l.room_at)]);
      if (l.window_end) all.push(['Window', clockTime(l.window_start) + ' to ' + until(l.window_end)]);
      facts.replaceChildren(...all.flatMap(([name, ...value]) => [el('dt', {}, name), el('dd', {}, value)]));
      drawLimit(svg, l, at);
      const list = [
        ...(l.entries || []).map((e) => ['entry', e.at, e.n, '']),
        ...(l.appointments || []).map((e) => ['appointment', e.at, e.n, 'begins then']),
        ...(l.holds || []).map((e) => ['hold', e.at, e.n, 'until ' + clockTime(e.until) + (e.reservation ? ', reservation ' + e.reservation : '')]),
      ];
      const leftOff = ['entries', 'holds', 'appointments'].filter((name) => l[name + '_left_off']);
      const notes = leftOff.map((name) => exact(l[name + '_left_off']) + ' ' + name + ' are left off.');
      if (l.holds && l.holds.length > 0 && stats && /^redis/.test(stats.server.store)) notes.push('Redis does not name the reservations of holds.');
      put(left, notes.join(' '));
      rows(t.body, list.map((r, i) => [i, ...r]), (r) => JSON.stringify(r), ([, what, when, units, note]) => ({
        element: el('tr', {}, el('td', { class: 'text' }, what), el('td', { class: 'text' }, clockTime(when)), el('td', {}, exact(units)), el('td', { class: 'text wrap' }, visible(note))),
        change() {},
      }));
    };
    return { element, change };
  }

  const keyView = {
    title: 'One key',
    build(route) {
      const name = route.rest, key = Object.fromEntries(route.params);
      const p = policies.find((p) => p.name === name);
      const form = keyForm(name, key, null, 'Look up', (to) => go(keyHash(to.policy, to.key)));
      main.append(el('h1', { tabindex: '-1' }, 'One key'));
      if (name && !p) {
        main.append(policyGone(name));
        return async () => {};
      }
      if (!p || p.dimensions.some((d) => !has(key, d))) {
        main.append(el('p', { class: 'lead' }, 'Enter a key to see its history, and why it is allowed or denied.'), form.form);
        return async () => {};
      }
      const why = el('p', { class: 'why', id: 'why' }), status = el('span', { class: 'copied', role: 'status' });
      let card = null;
      const verdict = el('span'), facts = el('dl', { class: 'facts' }), limits = el('div');
      main.append(el('p', { class: 'lead strong' }, bdi(name), ': ', pairs(key, p.dimensions), ' ', verdict),
        card = el('section', { class: 'card', hidden: true }, why,
          el('div', { class: 'row' }, button('Copy the sentence', () => copy(why, status)), button('Override …', () => askOverride(name, own(p, key))),
            button('Block …', () => askBlock(p, key), 'danger'), button('Reset …', () => askReset(p, key), 'danger'), status), facts),
        limits, el('details', {}, el('summary', {}, 'Look another key up'), form.form));
      let width = 0;
      return async () => {
        const answer = await get(keysPath(name) + '?' + query(key));
        verdict.replaceChildren(...verdicts(answer));
        put(why, visible(answer.why));
        card.hidden = false;
        const all = [];
        if (answer.plan) all.push(el('dt', {}, 'Plan'), el('dd', {}, bdi(answer.plan)));
        else if (p.plan_by) all.push(el('dt', {}, 'Plan'), el('dd', { class: 'soft' }, has(key, p.plan_by) ? 'none of this name: the numbers of the policy itself' : 'not given: the numbers of the policy itself. Look the key up with its ' + visible(p.plan_by) + ' to see those of a plan.'));
        const by = answer.override;
        if (by) all.push(el('dt', {}, 'Override'), el('dd', {}, bdi(by.why), by.until ? ', until ' + clockTime(by.until) : ', for good'));
        facts.replaceChildren(...all);
        if (width !== innerWidth) limits.rowsById = undefined;
        width = innerWidth;
        rows(limits, answer.limits.map((l) => [l, answer]), ([l]) => l.name, ([l]) => limitCard(l));
      };
    },
  };

  // verdicts are the decision in words, and that of a shadow policy, which is not enforced.
  const verdicts = (answer) => [answer.allowed ? badge('allowed', 'good') : badge('denied', 'heavy'),
    answer.would ? badge(answer.would.allowed ? 'in shadow: allowed' : 'in shadow: denied', 'watch') : ''].filter(Boolean);

  // own returns the key without the value that chooses a plan.
  const own = (p, key) => Object.fromEntries(p.dimensions.filter((d) => has(key, d)).map((d) => [d, key[d]]));

  function askReset(p, key) {
    const isOwn = (l) => p.dimensions.every((d) => l.by.includes(d));
    ask('Reset this key?', 'Reset', 'danger', [
      el('p', {}, 'The histories of the chosen limits are dropped, and their blocks end. Open reservations stay.'),
      el('p', {}, bdi(p.name), ': ', pairs(own(p, key), p.dimensions)),
      el('fieldset', {}, el('legend', { class: 'soft small' }, 'Limits; others than those of this key alone count further keys, too'),
        p.limits.map((l) => checkbox(l.name + ': ' + l.sentence, 'limit', l.name, isOwn(l)))),
    ], async (form) => {
      const chosen = [...(form.limit.length === undefined ? [form.limit] : form.limit)].filter((c) => c.checked).map((c) => c.value);
      if (chosen.length === 0) throw new Failure(400, 'Choose a limit.');
      const of = p.limits.filter((l) => chosen.includes(l.name));
      const dims = Object.fromEntries(Object.entries(key).filter(([d]) => of.some((l) => l.by.includes(d))));
      const content = await call('DELETE', keysPath(p.name) + '?' + query(dims, chosen.map((l) => ['limit', l])));
      return 'Reset: ' + content.reset.join(', ') + '.';
    });
  }

  const BLOCKS = [['300000', '5 minutes'], ['3600000', '1 hour'], ['86400000', '1 day'], ['604800000', '7 days'], ['0', 'end a running block']];

  function askBlock(p, key) {
    ask('Block this key?', 'Block', 'danger', [
      el('p', {}, 'Every attempt of the key is denied for that time. A running block that lasts longer stays.'),
      el('p', {}, bdi(p.name), ': ', pairs(own(p, key), p.dimensions)),
      el('div', { class: 'fields' }, select('For', 'for', BLOCKS, '3600000')),
    ], async (form) => {
      const body = JSON.stringify({ policy: p.name, key, for_ms: Number(form.for.value) });
      const content = await call('POST', 'v1/block', { body });
      return content.blocked_until ? 'Blocked until ' + clockTime(content.blocked_until) + '.' : 'No block runs.';
    });
  }

  // ---- View: overrides

  // members joins members of JSON; the values of raw are numbers of any length.
  const members = (text, raw) => '{' + [...Object.entries(text).filter(([, v]) => v !== undefined).map(([k, v]) => JSON.stringify(k) + ':' + JSON.stringify(v)),
    ...Object.entries(raw).map(([k, v]) => JSON.stringify(k) + ':' + v)].join(',') + '}';

  const localInstant = (at) => new Date(Date.parse(at) - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16);


  // askOverride sets an override of a key. The form begins with the override of a limit or, without
  // one, with the first override that the key has. Another limit brings the numbers of its override.
  async function askOverride(policy, key, limit) {
    if (Object.keys(key).length === 0) return say('done', 'An override is for at least one value of the key.', { bad: true, seconds: 8 });
    let found = [];
    if (!await attempt(async () => { found = (await get(overridesPath(policy) + '?' + query(key))).overrides; })) return;
    const p = policies.find((p) => p.name === policy), limits = p ? p.limits : [];
    const present = (limit) => found.find((o) => o.source === 'store' && (!limit || o.limit === limit));
    let old = present(limit), end = '';
    const chosen = limits.length > 1 && select('Limit', 'limit', limits.map((l) => [l.name, l.name + ': ' + l.sentence]), old && old.limit);
    const max = input('New number', { name: 'max', inputmode: 'numeric', pattern: '[0-9]{1,16}', required: true });
    const until = input('Until (empty: for good)', { name: 'until', type: 'datetime-local' });
    const reason = input('Reason', { name: 'reason', required: true, maxlength: 500 });
    const write = (label, value) => { label.querySelector('input').value = value; };
    const fill = () => {
      end = old && old.until ? localInstant(old.until) : '';
      write(until, end);
      write(max, old ? String(old.max) : '');
      write(reason, old ? old.reason : '');
    };
    fill();
    if (chosen) {
      chosen.addEventListener('change', (e) => {
        const before = old;
        old = present(e.target.value);
        if (before || old) fill(); // otherwise what was written stays
      });
    }
    ask(old ? 'Change the override' : 'Override a key', 'Save', 'main', [
      el('p', {}, bdi(policy), ': ', pairs(key, p && p.dimensions)),
      el('div', { class: 'fields' },
        chosen, max, until, reason,
        input('Author', { name: 'author', required: true, maxlength: 100, value: author }),
        checkbox('Also if it is below the number of the file', 'force', 'yes', false)),
    ], async (form) => {
      const limit = form.limit ? form.limit.value : undefined, over = present(limit || (limits[0] || {}).name);
      author = form.author.value;
      const isSameEnd = old && form.until.value === end; // the field has no seconds
      const until = isSameEnd ? old.until : form.until.value ? new Date(form.until.value).toISOString() : undefined;
      const body = members({
        key, limit, until,
        reason: form.reason.value, author, force: form.force.checked || undefined,
      }, { max: form.max.value });
      await call('PUT', overridesPath(policy), { body, over: over ? over.version : null });
      return 'The override is in force.';
    });
  }

  function askDelete(o) {
    ask('Delete this override?', 'Delete', 'danger', [
      el('p', {}, 'The numbers of the file and its plans apply again.'),
      el('p', {}, bdi(o.policy), ': ', pairs(o.key), ', ', exact(o.max)),
      el('div', { class: 'fields' }, input('Reason', { name: 'reason', required: true, maxlength: 200 }), input('Author', { name: 'author', required: true, maxlength: 100, value: author })),
    ], async (form) => {
      author = form.author.value;
      const body = members({ key: o.key, limit: o.limit, reason: form.reason.value, author }, {});
      await call('DELETE', overridesPath(o.policy), { body, over: o.version });
      return 'The override is deleted.';
    });
  }

  function overrideItem(o) {
    const isOfFile = o.source === 'file';
    return el('li', {},
      el('div', { class: 'row' },
        el('div', { class: 'grow' }, bdi(o.policy), ': ', pairs(o.key), ' → ', el('b', {}, o.plan ? ['plan ', bdi(o.plan)] : exact(o.max)), isOfFile && badge('in the file')),
        !isOfFile && button('Change', () => askOverride(o.policy, o.key, o.limit)), !isOfFile && button('Delete', () => askDelete(o), 'danger')),
      el('div', { class: 'soft small' }, o.limit && [o.limit !== 'limit' && ['limit ', bdi(o.limit), ': '], visible(o.sentence || exact(o.max)), '; '],
        o.until ? 'until ' + clockTime(o.until) : 'for good', o.last_used ? '; last used ' + clockTime(o.last_used) : ''),
      el('div', {}, bdi(o.reason || 'no reason'), o.author && [' – ', bdi(o.author)]),
      o.not_applied && el('div', { class: 'denied-word' }, 'does not apply: ' + visible(o.not_applied)));
  }

  const overridesView = {
    title: 'Overrides',
    build() {
      const list = el('ul', { class: 'limits-list overrides' });
      const empty = el('p', { class: 'empty' }), problem = el('p', { class: 'denied-word' });
      let after = '', next = '';
      const turn = (place) => { after = place; attempt(update); };
      const begin = button('The first ones', () => turn('')), more = button('More', () => turn(next));
      const pager = el('div', { class: 'row', hidden: true }, begin, more);
      const fresh = policies.length > 0 && keyForm(policies[0].name, {}, null, 'Override …', ({ policy, key }) => {
        const p = policies.find((p) => p.name === policy);
        askOverride(policy, own(p, key));
      }, true);
      main.append(el('h1', { tabindex: '-1' }, 'Overrides'), el('p', { class: 'lead' }, 'Other numbers for single keys, in force on every instance of the store.'),
        el('section', { class: 'card' }, problem, empty, list, pager));
      if (fresh) {
        fresh.form.prepend(el('h2', {}, 'A new one'));
        main.append(fresh.form);
      }
      async function update() {
        const place = after, answer = await get('v1/overrides?n=200' + (place ? '&after=' + encodeURIComponent(place) : ''));
        if (place !== after) return;
        const all = answer.overrides;
        next = answer.next || '';
        put(empty, place ? 'There are no more.' : 'There are no overrides.');
        empty.hidden = all.length > 0;
        put(problem, sentence(answer.problem || ''));
        problem.hidden = !answer.problem;
        list.hidden = all.length === 0;
        begin.hidden = !place;
        more.hidden = !next;
        pager.hidden = !place && !next;
        rows(list, all, (o) => JSON.stringify(o), (o) => ({ element: overrideItem(o), change() {} }));
      }
      return update;
    },
  };

  // ---- View: health

  const bytes = (x) => exact(x) + ' bytes';
  const bucket = (ms) => (ms < 0 ? 'above 2,500 ms' : 'at most ' + n(ms) + ' ms');

  const healthView = {
    title: 'Health',
    build() {
      const lead = el('p', { class: 'lead' });
      const facts = el('dl', { class: 'facts' }), store = el('dl', { class: 'facts' }), reload = el('dl', { class: 'facts' }), changes = changeList();
      const reservations = table('Reservations', [' Policy', 'Open', 'Opened', 'Settled', 'Ended', 'Late calls']), about = el('p', { class: 'soft small' }), none = el('p', { class: 'empty' }, 'There were no reservations.');
      const instances = table('Instances', [' Name', ' Version', ' Started', ' Seen', ' Listens on']), alone = el('p', { class: 'empty' });
      main.append(el('h1', { tabindex: '-1' }, 'Health'), lead,
        el('section', { class: 'card' }, el('h2', {}, 'This weir'), facts),
        el('section', { class: 'card' }, el('h2', {}, 'Store'), store),
        el('section', { class: 'card' }, el('h2', {}, 'Instances'), alone, instances.all),
        el('section', { class: 'card' }, el('h2', {}, 'Policies'), reload, changes.element),
        el('section', { class: 'card' }, el('h2', {}, 'Reservations since the start'), none, reservations.all, about));
      const fill = (list, all) => list.replaceChildren(...all.filter(Boolean).flatMap(([name, ...value]) => [el('dt', {}, name), el('dd', {}, value)]));
      return async () => {
        const h = stats.health, s = stats.server, m = h.memory;
        put(lead, s.ready ? 'It takes requests.' : 'It takes no requests: ' + sentence(s.why || 'it drains'));
        const cap = m && m.max_bytes;
        fill(facts, [['Version', visible(h.version)], ['Started', clockTime(h.started)], ['Requests waiting for a decision', exact(h.in_flight)]]);
        fill(store, [
          ['Name', visible(s.store)],
          ['State', s.store_down ? el('span', { class: 'denied-word' }, 'unavailable: ' + visible(s.store_down)) : 'available'],
          ['Decisions in the last minute', exact(h.decisions)],
          h.write_ms && ['Its last write of a heartbeat took', n(h.write_ms) + ' ms'],
          h.decisions && ['Half of them took', bucket(h.p50_ms)], h.decisions && ['99 in 100 took', bucket(h.p99_ms)],
          m && ['Histories', exact(m.keys) + (m.max_keys ? ' of ' + exact(m.max_keys) : '')],
          m && ['Memory', bytes(m.bytes) + (cap ? ' of ' + exact(cap) : ', without a bound'), cap && [el('br'), el('meter', { min: 0, max: Number(cap), value: Number(m.bytes), high: Number(cap) * 0.9, 'aria-label': 'Memory of its bound' })]],
          m && ['Rejected for lack of memory', exact(m.rejected)],
          h.disk && ['Log on disk', bytes(h.disk.bytes) + ', ' + exact(h.disk.failures) + ' failed writes'],
          h.store_calls && ['Calls without an answer', exact(h.store_calls.failures) + ', of them ' + exact(h.store_calls.timeouts) + ' timeouts'],
          h.store_calls && ['Decided without it', exact(h.store_calls.degraded)],
          h.store_calls && [s.store_down ? 'Unavailable since' : 'Available since', clockTime(h.store_calls.since)],
        ]);
        const last = s.last_reload;
        fill(reload, [['From', visible(s.source)], ['In force since', clockTime(s.since)], ['Generation', exact(s.generation)],
          ['Last reload', last ? clockTime(last.at) + (last.ok ? ', succeeded' : ', failed: ' + visible(last.error)) : 'none yet']]);
        changes.change();
        const all = stats.policies.filter((p) => p.reservations);
        none.hidden = all.length > 0;
        reservations.all.hidden = about.hidden = all.length === 0;
        const missed = all.reduce((sum, { reservations: r }) => sum + Number(r.missed || 0), 0);
        put(about, 'Open and ended are those that this weir opened and did not settle. One that another weir settles stays open here until its end.' + (missed ? ' ' + exact(missed) + ' more were opened while 50,000 of their policy were open, and are in neither count.' : ''));
        rows(reservations.body, all, (p) => p.policy, (p) => {
          const cells = ['', '', '', '', ''].map(() => el('td'));
          return { element: el('tr', {}, el('td', { class: 'text' }, bdi(p.policy)), cells), change: ({ reservations: r }) => [r.open, r.opened, r.settled, r.ended, r.expired].forEach((x, i) => put(cells[i], exact(x))) };
        });
        let list = null;
        try {
          list = await get('v1/instances');
        } catch (e) {
          if (e.status !== 404) throw e;
        }
        const others = (list && list.instances) || [];
        instances.all.hidden = others.length === 0;
        alone.hidden = others.length > 0 && !list.problem;
        put(alone, list && list.problem ? visible(list.problem) : 'This weir alone keeps its histories.');
        rows(instances.body, others, (i) => i.name, (i) => {
          const seen = el('td', { class: 'text' });
          return {
            element: el('tr', {}, el('td', { class: 'text wrap' }, bdi(i.name), i.here && badge('this one')), el('td', { class: 'text' }, visible(i.version)), el('td', { class: 'text' }, clockTime(i.started)), seen, el('td', { class: 'text wrap' }, bdi(i.listen || '–'))),
            change: (now) => put(seen, clockTime(now.seen)),
          };
        });
      };
    },
  };

  // ---- View: try

  // quoted writes a text for a shell.
  const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

  // escaped writes JSON without the characters that visible replaces.
  const escaped = (text) => text.replace(HIDDEN, (c) => c.split('').map((unit) => '\\u' + unit.charCodeAt(0).toString(16).padStart(4, '0')).join(''));

  const tryView = {
    title: 'Try',
    build(route) {
      const name = route.params.get('policy') || (policies[0] || {}).name;
      const key = Object.fromEntries([...route.params].filter(([k]) => k.startsWith('key.')).map(([k, v]) => [k.slice(4), v]));
      const units = input('Units', { name: 'n', inputmode: 'numeric', pattern: '[0-9]{1,16}', value: '1', required: true });
      const kinds = el('fieldset', {}, el('legend', {}, 'How'),
        el('label', {}, el('input', { type: 'radio', name: 'how', value: 'peek', checked: true }), ' Peek: changes nothing'),
        el('label', {}, el('input', { type: 'radio', name: 'how', value: 'check' }), ' Take: charges the key'));
      const line = el('pre', { id: 'curl', tabindex: '0', 'aria-label': 'Command line' }), status = el('span', { class: 'copied', role: 'status' });
      const result = el('section', { class: 'card', 'aria-live': 'polite', hidden: true });
      main.append(el('h1', { tabindex: '-1' }, 'Try'), el('p', { class: 'lead' }, 'Send an attempt as a program does.'));
      if (policies.length === 0) {
        main.append(el('p', { class: 'notice' }, 'There are no policies to try.'));
        return async () => {};
      }
      const { form, read } = keyForm(name, key, [units, kinds], 'Send', async (to, of) => {
        const path = 'v1/' + of.elements.how.value;
        await attempt(async () => {
          const content = await call('POST', path, { body: bodyOf(to, of) });
          const words = verdicts(content);
          result.replaceChildren(el('h2', {}, of.elements.how.value === 'peek' ? 'It would be' : 'It is', words), el('p', { class: 'why' }, visible(content.why)),
            el('div', { class: 'links' }, link('The history of this key', keyHash(to.policy, to.key))),
            el('details', {}, el('summary', {}, 'The whole answer'), el('pre', { tabindex: '0', 'aria-label': 'Answer' }, visible(JSON.stringify(content, null, 1)).replaceAll('\\u000a', '\n'))));
          result.hidden = false;
        });
      });
      const bodyOf = ({ policy, key }, of) => members({ policy, key }, { n: of.elements.n.value || '1' });
      const write = () => {
        const url = new URL('v1/' + form.elements.how.value, location.href.split('#')[0]);
        put(line, 'curl ' + (token ? '-H "Authorization: Bearer $WEIR_TOKEN" ' : '') + '-d ' + quoted(escaped(bodyOf(read(), form))) + ' ' + visible(url));
      };
      form.addEventListener('input', write);
      form.addEventListener('change', write);
      main.append(form, result, el('section', { class: 'card' }, el('h2', {}, 'The same with curl'), line, el('div', { class: 'row' }, button('Copy the line', () => copy(line, status)), status)));
      write();
      return async () => write();
    },
  };

  const nowhere = {
    title: 'Not found',
    build(route) {
      main.append(el('h1', { tabindex: '-1' }, 'Not found'), el('p', { class: 'lead' }, 'This page has no view ', bdi('#/' + route.path), '. ', link('The policies', 'policies')));
      return async () => {};
    },
  };

  // ---- Routes

  const views = { policies: policiesView, keys: keysView, key: keyView, overrides: overridesView, health: healthView, try: tryView };
  let view = null, opened = 0;
  const go = (hash) => { location.hash = '#/' + hash; };

  // routeOf reads #/VIEW/REST?NAME=VALUE.
  function routeOf(hash) {
    const [path, params] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
    const [name, ...rest] = path.split('/');
    let word = rest.join('/');
    try {
      word = decodeURIComponent(word);
    } catch (e) { /* a percent sign that escapes nothing stays */ }
    return { path, name: name || 'policies', rest: word, params: new URLSearchParams(params || '') };
  }

  // open shows the view of the address. The first one waits for the first numbers.
  async function open(isMove) {
    const mine = ++opened, route = routeOf(location.hash), to = Object.hasOwn(views, route.name) ? views[route.name] : nowhere;
    view = null;
    say('failed', '');
    for (const a of document.querySelectorAll('nav a')) {
      const isHere = a.getAttribute('href') === '#/' + (route.name === 'key' ? 'keys' : route.name);
      if (isHere) a.setAttribute('aria-current', 'page');
      else a.removeAttribute('aria-current');
    }
    document.title = to.title + ' – Weir';
    const isReady = await attempt(async () => {
      if (!stats) stats = await get('v1/stats');
      await load();
    });
    if (mine !== opened) return;
    if (!isReady) {
      if (!lacksToken) main.replaceChildren(el('h1', { tabindex: '-1' }, to.title), el('p', { class: 'empty' }, 'Waiting for weir.'));
      view = { update: async () => open() }; // with the next numbers
      return;
    }
    main.replaceChildren();
    const next = { update: to.build(route) };
    view = next;
    if (isMove) {
      main.querySelector('h1').focus();
      scrollTo(0, 0);
    }
    await attempt(next.update);
    main.dataset.shown = location.hash;
  }

  addEventListener('hashchange', () => open(true));
  byId('skip').addEventListener('click', () => main.querySelector('h1').focus());
  let resizing = 0;
  addEventListener('resize', () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => { if (view && stats) attempt(view.update); }, 150);
  });

  theme(byId('theme'));
  showState();
  open();
  run();
})();
