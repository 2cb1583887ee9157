(() => {
  const { DAY, TICKS, add, brief, clock, copy, date, frame, lasting, n, short, sortable, steps, theme, tick, width } = look;
  const ROOMY = 620; // pixels of a chart with room for longer texts
  const counted = (x, one, many) => brief(x) + ' ' + (x === 1 ? one : many);
  const say = (x, one, many) => (x === 0 ? 'no ' + many : counted(x, one, many));

  // share is the same text as in the tables of the file.
  function share(part, whole) {
    const p = part * 100 / Math.max(whole, 1);
    if (part === 0) return '0 %';
    if (p < 0.01) return '< 0.01 %';
    if (p < 1) return p.toFixed(2) + ' %';
    if (p < 99.95 || part === whole) return p.toFixed(1).replace(/\.0$/, '') + ' %';
    return '> 99.9 %';
  }

  // log returns a scale from units to pixels: the logarithm of units + 1. The unit u takes
  // the place from u - 0.5 to u + 0.5, so that a limit lies between the peaks beside it.
  function log(from, to, left, right) {
    const a = Math.log(from + 0.5), b = Math.log(to + 1.5);
    return (u) => left + (Math.log(u + 1) - a) / (b - a) * (right - left);
  }

  // decades returns the ticks of a logarithmic axis, at most one for each gap of pixels.
  function decades(from, to, x, gap) {
    const all = [];
    for (const digits of [[1, 2, 5], [1, 3], [1]]) {
      all.length = 0;
      for (let p = 10 ** Math.floor(Math.log10(Math.max(from, 1))); p <= to; p *= 10) {
        for (const d of digits) if (d * p >= from && d * p <= to) all.push(d * p);
      }
      if (all.every((v, i) => i === 0 || x(v) - x(all[i - 1]) >= gap)) return all;
    }
    const per = Math.ceil(all.length * gap / (x(to) - x(from)));
    return all.filter((_, i) => i % per === 0);
  }

  // axis draws the horizontal axis of a panel with its unit.
  function axis(svg, x, ticks, left, right, bottom, unit) {
    for (const t of ticks) {
      add(svg, 'line', { x1: x(t), x2: x(t), y1: bottom, y2: bottom + 5, class: 'base' });
      const e = add(svg, 'text', { x: x(t), y: bottom + 20, 'text-anchor': 'middle' }, short(t));
      const half = width(e) / 2;
      if (x(t) + half > right + 12) e.remove();
    }
    add(svg, 'text', { x: right, y: bottom + 38, 'text-anchor': 'end' }, unit);
  }

  // A curve from limit to a number of requests or keys: its panel and its mark.
  function curve(svg, v, g, top, height, name, note, value, whole, one, many, ticks, y) {
    const head = add(svg, 'text', { x: 0, y: top - 18, class: 'name' }, name);
    frame(svg, g.left, g.right, top, top + height, ticks, y);
    const all = v.candidates.map((c) => [g.x(c.limit + 0.5), y(value(c))]);
    const points = all.map((p) => p[0].toFixed(1) + ' ' + p[1].toFixed(1));
    const bottom = top + height;
    add(svg, 'path', { class: 'under', d: 'M' + all[0][0] + ' ' + bottom + 'L' + points.join('L') + 'L' + all[all.length - 1][0] + ' ' + bottom + 'z' });
    add(svg, 'path', { class: 'curve', d: 'M' + points.join('L') });
    v.candidates.forEach((c, i) => {
      const dot = add(svg, 'circle', { class: 'dot', cx: all[i][0], cy: all[i][1], r: 3 });
      add(dot, 'title', {}, 'limit ' + n(c.limit) + ': ' + counted(value(c), one, many) + ' denied (' + share(value(c), whole) + ')');
    });
    axis(svg, g.x, g.ticks, g.left, g.right, bottom, 'limit, ' + v.per);
    return (layer, c) => {
      const x = g.x(c.limit + 0.5), here = y(value(c));
      add(layer, 'circle', { class: 'here', cx: x, cy: here, r: 6 });
      const e = add(layer, 'text', { x: width(head) + 10, y: top - 18, class: 'value' }, brief(value(c)) + ' (' + share(value(c), whole) + ')');
      if (g.right > ROOMY) add(layer, 'text', { x: width(head) + width(e) + 20, y: top - 18 }, note);
    };
  }

  // drawStack draws the distribution of the peaks and, below it with the same horizontal
  // scale, the denied requests and keys of each limit. It returns a function that moves
  // the mark to a candidate.
  function drawStack(svg, v) {
    svg.replaceChildren();
    const total = svg.clientWidth || 680, many = v.candidates.length > 1;
    const left = 56, right = total - 14;
    const limits = v.candidates.map((c) => c.limit);
    const from = Math.min(v.bins[0].from, ...limits);
    const to = Math.max(10, v.bins[v.bins.length - 1].to, ...limits);
    const x = log(from, to, left, right);
    const g = { left, right, x, ticks: decades(from, to, x, 44) };
    const rows = total < ROOMY ? 2 : 1;

    // The distribution. Its vertical scale is log(1 + keys), so that one key is visible
    // beside a hundred thousand.
    let top = 78 + rows * 20, height = 150;
    const most = Math.max(...v.bins.map((b) => b.keys));
    const tall = (k, t, h, m) => t + h - Math.log1p(k) / Math.log1p(m) * h;
    const logTicks = (m) => {
      const all = [];
      for (let p = 1; p <= m; p *= 10) all.push(p);
      return all.length > 5 ? all.filter((_, i) => i % 2 === 0) : all;
    };
    const yKeys = (k) => tall(k, top, height, most);
    const name = add(svg, 'text', { x: 0, y: 14, class: 'name' }, 'Keys by peak');
    if (total > ROOMY) add(svg, 'text', { x: width(name) + 10, y: 14 }, 'number of keys, on a logarithmic scale');
    frame(svg, left, right, top, top + height, logTicks(most), yKeys);
    const bars = add(svg, 'g', {});
    for (const b of v.bins) {
      const x1 = x(b.from - 0.5), x2 = x(b.to + 0.5), y = yKeys(b.keys);
      const gap = x2 - x1 > 5 ? 1 : 0;
      const bar = { b, y, x1: x1 + gap, x2: x2 - gap, h: top + height - y };
      const shape = (cls) => {
        const e = add(bars, 'rect', { class: cls, y: bar.y, height: bar.h });
        add(e, 'title', {}, counted(b.keys, 'key', 'keys') + ' with a peak of ' + (b.from === b.to ? n(b.from) : n(b.from) + ' to ' + n(b.to)) + ' ' + v.per);
        return e;
      };
      b.calm = shape('calm');
      b.heavy = shape('heavy');
      // A bar is cut at the limit if it has keys on both sides of it.
      b.split = (c) => {
        const above = c.keys - v.bins.reduce((sum, o) => sum + (o.from > c.limit ? o.keys : 0), 0);
        let cut = Math.min(Math.max(x(c.limit + 0.5), bar.x1), bar.x2);
        if (b.from <= c.limit && c.limit < b.to && above <= 0) cut = bar.x2;
        if (b.from <= c.limit && c.limit < b.to && above >= b.keys) cut = bar.x1;
        b.calm.setAttribute('x', bar.x1);
        b.calm.setAttribute('width', Math.max(0, cut - bar.x1));
        b.heavy.setAttribute('x', cut);
        b.heavy.setAttribute('width', Math.max(0, bar.x2 - cut));
      };
    }
    axis(svg, x, g.ticks, left, right, top + height, 'peak, ' + v.per);
    const flagBottom = top;
    let bottom = top + height;
    const panels = [[0, bottom]];

    // The curves.
    const marks = [];
    if (many) {
      top = bottom + 92;
      height = 130;
      const maxDenied = Math.max(...v.candidates.map((c) => c.denied), 1);
      const topDenied = top, highDenied = height;
      const yDenied = (d) => topDenied + highDenied - d / maxDenied * highDenied;
      marks.push(curve(svg, v, g, top, height, 'Requests denied', 'of all ' + brief(v.requests), (c) => c.denied, v.requests,
        'request', 'requests', steps(maxDenied, 4), yDenied));
      bottom = top + height;
      panels.push([top, bottom]);
      top = bottom + 92;
      height = 100;
      const maxKeys = Math.max(...v.candidates.map((c) => c.keys), 1);
      const topKeys = top, highKeys = height;
      marks.push(curve(svg, v, g, top, height, 'Keys denied', 'of all ' + brief(v.keys) + ', on a logarithmic scale', (c) => c.keys, v.keys,
        'key', 'keys', logTicks(maxKeys), (k) => tall(k, topKeys, highKeys, maxKeys)));
      bottom = top + height;
      panels.push([top, bottom]);
    }
    const all = bottom + 46;
    svg.setAttribute('height', all);
    svg.setAttribute('viewBox', '0 0 ' + total + ' ' + all);
    const layer = add(svg, 'g', {});
    const suggested = v.candidates.find((c) => c.limit === v.limit);

    function mark(c) {
      layer.replaceChildren();
      const at = x(c.limit + 0.5);
      if (suggested && c !== suggested) {
        const s = x(suggested.limit + 0.5);
        panels.forEach(([from, to], i) => add(layer, 'line', { class: 'first', x1: s, x2: s, y1: i === 0 ? flagBottom : from, y2: to }));
      }
      for (const b of v.bins) b.split(c);
      for (const [from, to] of panels) add(layer, 'line', { class: 'mark', x1: at, x2: at, y1: from, y2: to });

      const flag = add(layer, 'g', {});
      const label = (c === suggested ? v.word + ' ' : 'limit ') + brief(c.limit);
      const box = add(flag, 'rect', { class: 'flag', y: 28, height: 24, rx: 5 });
      const text = add(flag, 'text', { y: 45, class: 'flagged' }, label[0].toUpperCase() + label.slice(1));
      const w = width(text) + 18;
      const bx = Math.min(Math.max(at - w / 2, 0), total - w);
      box.setAttribute('x', bx);
      box.setAttribute('width', w);
      text.setAttribute('x', bx + 9);

      const isApart = c === suggested && v.apart;
      const within = v.keys - c.keys;
      const calmText = (isApart ? say(within, 'ordinary key', 'ordinary keys') : say(within, 'key', 'keys') + ' within') +
        (c === suggested && v.low ? ', at most ' + brief(v.low) : '');
      const heavyText = (isApart ? say(c.keys, 'heavy key', 'heavy keys') : say(c.keys, 'key', 'keys') + ' above') +
        (c === suggested && v.high ? ', ' + brief(v.high) + ' or more' : '');
      const a = add(layer, 'text', { class: 'calm over', y: 70 }, calmText);
      const h = add(layer, 'text', { class: 'heavy over', y: rows === 2 ? 90 : 70 }, heavyText);
      const wa = width(a), wh = width(h);
      let xa = Math.max(0, at - 10 - wa), xh = Math.min(at + 10, total - wh);
      if (rows === 1 && xa + wa + 16 > xh) {
        if (xa === 0) xh = Math.min(xa + wa + 16, total - wh);
        else xa = Math.max(0, xh - 16 - wa);
      }
      a.setAttribute('x', xa);
      h.setAttribute('x', Math.max(0, xh));
      for (const m of marks) m(layer, c);
      svg.setAttribute('aria-label', 'Chart. With a limit of ' + n(c.limit) + ' ' + v.per + ': ' + calmText + '; ' + heavyText + '; ' +
        counted(c.denied, 'request', 'requests') + ' denied, ' + share(c.denied, v.requests) + '. The table after the chart has all limits.');
    }
    mark.x = x;
    mark.left = left;
    mark.right = right;
    return mark;
  }

  // ROUND are the widths of steps up to half a day.
  const ROUND = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 28800, 43200].map((s) => s * 1000);

  // wider adds neighbours until at most count steps of a round width are left.
  function wider(t, count) {
    const least = t.step * Math.ceil(t.allowed.length / count);
    const step = ROUND.find((ms) => ms >= least && ms % t.step === 0) || least;
    const merged = (all) => {
      const sums = [];
      all.forEach((x, i) => {
        const at = Math.floor(i * t.step / step);
        sums[at] = (sums[at] || 0) + x;
      });
      return sums;
    };
    return { from: t.from, step, allowed: merged(t.allowed), denied: merged(t.denied) };
  }

  // drawTime draws allowed and denied requests by steps of time, at the limit of a
  // candidate. Without its series the marked limit stays.
  function drawTime(svg, v, c) {
    svg.replaceChildren();
    const marked = v.timeline, limit = c && c.series ? c.limit : v.limit;
    const atLimit = limit > 0 ? ', at a limit of ' + brief(limit) : '';
    const at = c && c.series ? { ...marked, allowed: marked.allowed.map((a, i) => a + marked.denied[i] - c.series[i]), denied: c.series } : marked;
    const total = svg.clientWidth || 680, left = 56, right = total - 14, top = 58, height = 150, bottom = top + height;
    const t = wider(at, (right - left) / 6), count = t.allowed.length;
    const sum = t.allowed.map((a, i) => a + t.denied[i]);
    const denied = t.denied;
    const most = Math.max(...sum, 1);
    const y = (k) => bottom - k / most * height;
    const step = (right - left) / count, gap = step > 4 ? 1 : 0;
    const head = add(svg, 'text', { x: 0, y: 14 }, 'Requests per ' + lasting(t.step) + atLimit);
    if (width(head) > total) head.textContent = 'Requests' + atLimit;
    frame(svg, left, right, top, bottom, steps(most, 4), y);
    let worst = 0;
    sum.forEach((all, i) => {
      if (denied[i] > denied[worst]) worst = i;
      const a = all - denied[i];
      const spot = { x: left + i * step + gap / 2, width: Math.max(step - gap, 0.5) };
      const label = date.format(t.from + i * t.step) + ' ' + clock(t.from + i * t.step, t.step) + ' UTC: ' + n(a) + ' allowed, ' + n(denied[i]) + ' denied';
      if (a > 0) add(add(svg, 'rect', { ...spot, class: 'calm', y: y(a), height: bottom - y(a) }), 'title', {}, label);
      if (denied[i] > 0) add(add(svg, 'rect', { ...spot, class: 'heavy', y: y(all), height: y(a) - y(all) }), 'title', {}, label);
    });
    const spanMs = t.step * count, place = (ms) => left + (ms - t.from) / spanMs * (right - left);
    const every = TICKS.find((ms) => ms * (right - left) / spanMs >= 64) || Math.ceil(spanMs / 5 / DAY) * DAY;
    for (let ms = Math.ceil(t.from / every) * every; ms <= t.from + spanMs; ms += every) {
      const at = place(ms);
      add(svg, 'line', { x1: at, x2: at, y1: bottom, y2: bottom + 5, class: 'base' });
      const e = add(svg, 'text', { x: at, y: bottom + 20, 'text-anchor': 'middle' }, tick(ms, every));
      if (at + width(e) / 2 > total || at - width(e) / 2 < 0) e.remove();
    }
    add(svg, 'text', { x: right, y: bottom + 38, 'text-anchor': 'end' }, 'time, UTC');
    svg.setAttribute('height', bottom + 46);
    svg.setAttribute('viewBox', '0 0 ' + total + ' ' + (bottom + 46));
    const sumDenied = denied.reduce((a, b) => a + b, 0), sumAll = sum.reduce((a, b) => a + b, 0);
    const calm = add(svg, 'text', { class: 'calm', x: 0, y: 38 }, brief(sumAll - sumDenied) + ' allowed');
    const heavy = add(svg, 'text', { class: 'heavy', x: width(calm) + 18, y: 38 }, brief(sumDenied) + ' denied');
    if (denied[worst] > 0) {
      const text = 'most denied: ' + brief(denied[worst]) + ' at ' + (spanMs > DAY ? date.format(t.from + worst * t.step) + ' ' : '') + clock(t.from + worst * t.step, t.step);
      const e = add(svg, 'text', { class: 'over', y: 38 }, text), w = width(e);
      const before = width(calm) + width(heavy) + 46, middle = left + (worst + 0.5) * step;
      const at = Math.min(Math.max(middle - w / 2, before), total - w);
      if (at < before) e.remove();
      else {
        e.setAttribute('x', at);
        add(svg, 'line', { class: 'first', x1: middle, x2: middle, y1: 44, y2: Math.max(46, y(sum[worst]) - 3) });
      }
    }
    svg.setAttribute('aria-label', 'Chart of requests over time: ' + n(sumAll - sumDenied) + ' allowed and ' + n(sumDenied) + ' denied' + atLimit + '.');
  }

  // drawHours draws the requests of a table by hour of the day.
  function drawHours(svg, table) {
    svg.replaceChildren();
    const total = svg.clientWidth || 680, left = 56, right = total - 14, top = 34, height = 110, bottom = top + height;
    const hours = [...table.tBodies[0].rows].map((row) => ({ name: row.cells[0].textContent, n: Number(row.cells[1].dataset.v), share: row.cells[2].textContent }));
    const most = Math.max(...hours.map((h) => h.n), 1), step = (right - left) / hours.length;
    const y = (k) => bottom - k / most * height;
    add(svg, 'text', { x: 0, y: 14 }, 'Requests in each hour of the day');
    frame(svg, left, right, top, bottom, steps(most, 3), y);
    const every = step >= 40 ? 1 : step >= 20 ? 3 : 6;
    hours.forEach((h, i) => {
      if (h.n > 0) {
        const bar = add(svg, 'rect', { class: 'calm', x: left + i * step + 1, width: step - 2, y: y(h.n), height: bottom - y(h.n) });
        add(bar, 'title', {}, h.name + ': ' + counted(h.n, 'request', 'requests') + ', ' + h.share);
      }
      if (i % every === 0) add(svg, 'text', { x: left + (i + 0.5) * step, y: bottom + 20, 'text-anchor': 'middle' }, h.name.slice(0, 2));
    });
    add(svg, 'text', { x: right, y: bottom + 38, 'text-anchor': 'end' }, table.tHead.rows[0].cells[0].textContent);
    svg.setAttribute('height', bottom + 46);
    svg.setAttribute('viewBox', '0 0 ' + total + ' ' + (bottom + 46));
    const busiest = hours.reduce((a, b) => (b.n > a.n ? b : a));
    svg.setAttribute('aria-label', 'Chart of requests by hour of the day: most at ' + busiest.name + ', ' + counted(busiest.n, 'request', 'requests') + '.');
  }

  // show connects one view with its data, and returns a function that draws it.
  function show(section, v) {
    const one = (selector) => section.querySelector(selector);
    const put = (selector, text) => { const e = one(selector); if (e) e.textContent = text; };
    section.querySelectorAll('details').forEach((d) => { d.open = false; });
    section.querySelectorAll('.plain-text').forEach((e) => { e.hidden = true; });
    const table = one('table.keys');
    if (table) sortable(table);
    const more = one('.more');
    if (more) {
      table.classList.add('short');
      more.hidden = false;
      more.addEventListener('click', () => {
        more.hidden = true;
        table.classList.remove('short');
        table.closest('.scroll').focus();
      });
    }

    const code = one('code.chosen');
    if (code) {
      const button = one('.copy');
      button.hidden = false;
      button.addEventListener('click', () => copy(code, one('.copied')));
    }
    const suggested = Math.max(0, v.candidates.findIndex((c) => c.limit === v.limit));
    let chosen = suggested, mark = null;
    const stack = one('.stack'), time = one('.time'), slide = one('.slide'), reset = one('.reset');
    const input = slide && slide.querySelector('input');
    if (stack) stack.removeAttribute('hidden');
    if (time) time.removeAttribute('hidden');
    if (slide) slide.hidden = false;

    const place = () => { if (input) input.value = Math.round((mark.x(v.candidates[chosen].limit + 0.5) - mark.left) / (mark.right - mark.left) * 1000); };

    function choose(i) {
      chosen = Math.min(Math.max(i, 0), v.candidates.length - 1);
      const c = v.candidates[chosen], isSuggested = chosen === suggested;
      if (mark) mark(c);
      if (time) drawTime(time, v, c);
      if (input) {
        place();
        input.setAttribute('aria-valuetext', n(c.limit) + ' ' + v.per + ': ' + counted(c.denied, 'request', 'requests') + ' and ' + counted(c.keys, 'key', 'keys') + ' denied');
      }
      if (code && v.rest) code.textContent = c.limit + ' ' + v.rest;
      put('.which', isSuggested ? (v.word === 'limit' ? '' : ', ' + v.word) : ', your choice');
      put('.n-denied', n(c.denied));
      put('.n-denied-of', share(c.denied, v.requests) + ' of ' + n(v.requests));
      put('.n-keys', n(c.keys));
      put('.n-keys-of', share(c.keys, v.keys) + ' of ' + n(v.keys));
      section.querySelectorAll('.marked').forEach((e) => { e.style.visibility = isSuggested ? '' : 'hidden'; });
      if (reset) reset.hidden = isSuggested;
      if (table) for (const row of table.tBodies[0].rows) {
        const peak = Number(row.dataset.peak);
        if (peak > 0) row.classList.toggle('over', peak > c.limit);
      }
    }

    // nearest returns the candidate nearest to a place on the axis.
    function nearest(px) {
      let best = 0;
      v.candidates.forEach((c, i) => {
        if (Math.abs(mark.x(c.limit + 0.5) - px) < Math.abs(mark.x(v.candidates[best].limit + 0.5) - px)) best = i;
      });
      return best;
    }

    function draw() {
      if (section.hidden) return;
      if (stack) {
        mark = drawStack(stack, v);
        if (input) {
          const ratio = stack.clientWidth / stack.viewBox.baseVal.width || 1;
          input.style.marginLeft = (mark.left * ratio - 11) + 'px';
          input.style.width = ((mark.right - mark.left) * ratio + 22) + 'px';
        }
      }
      if (stack) choose(chosen);
      else if (time) drawTime(time, v);
    }

    if (input) {
      let dragging = false, keyed = null;
      input.addEventListener('pointerdown', () => { dragging = true; });
      addEventListener('pointerup', () => { dragging = false; });
      input.addEventListener('keydown', (e) => {
        const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -1e6, End: 1e6 }[e.key];
        if (!by) return;
        e.preventDefault();
        choose(chosen + by);
      });
      input.addEventListener('input', () => {
        const px = mark.left + input.value / 1000 * (mark.right - mark.left);
        const now = (mark.x(v.candidates[chosen].limit + 0.5) - mark.left) / (mark.right - mark.left) * 1000;
        let to = nearest(px);
        // A screen reader moves by one step of the input, which can be less than a candidate.
        if (!dragging && to === chosen && Math.abs(input.value - now) >= 1) to += Math.sign(input.value - now);
        choose(to);
      });
      const follow = (e) => {
        const box = stack.getBoundingClientRect();
        choose(nearest((e.clientX - box.left) * stack.viewBox.baseVal.width / box.width));
      };
      stack.addEventListener('pointerdown', (e) => { if (e.button === 0) { stack.setPointerCapture(e.pointerId); follow(e); } });
      stack.addEventListener('pointermove', (e) => { if (stack.hasPointerCapture(e.pointerId)) follow(e); });
      reset.addEventListener('click', () => { choose(suggested); input.focus(); });
    }
    return draw;
  }

  const data = JSON.parse(document.getElementById('data').textContent);
  const sections = [...document.querySelectorAll('.view')];
  const draws = sections.map((s, i) => show(s, data[i]));
  const hours = document.querySelector('svg.hours');
  if (hours) {
    const table = document.querySelector('table.hours');
    hours.removeAttribute('hidden');
    table.closest('details').open = false;
    draws.push(() => drawHours(hours, table));
  }
  const drawAll = () => draws.forEach((d) => d());

  const tabs = document.querySelector('.tabs');
  if (tabs) {
    tabs.hidden = false;
    const buttons = [...tabs.querySelectorAll('button')];
    const open = (i) => {
      buttons.forEach((b, k) => b.setAttribute('aria-pressed', String(k === i)));
      sections.forEach((s, k) => { s.hidden = k !== i; });
      draws[i]();
    };
    buttons.forEach((b, i) => b.addEventListener('click', () => open(i)));
    open(Number(tabs.dataset.first));
  }
  drawAll();

  theme(document.getElementById('theme'));

  let last = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== last) { last = innerWidth; drawAll(); } });
  addEventListener('beforeprint', drawAll);
  addEventListener('afterprint', drawAll);
})();
