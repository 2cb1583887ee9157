'use strict';
// look has the parts that the pages in a browser share.
const look = (() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const DAY = 864e5;
  const number = new Intl.NumberFormat('en-US');
  const n = (x) => number.format(x);

  function add(parent, name, attributes, text) {
    const e = document.createElementNS(SVG, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    parent.append(e);
    return e;
  }

  const width = (text) => text.getComputedTextLength();

  // steps returns about count round numbers up to the greatest.
  function steps(most, count) {
    const rough = most / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    const all = [];
    for (let v = Math.max(step, 1); v <= most * 1.0001; v += Math.max(step, 1)) all.push(v);
    return all;
  }

  // short is a number for an axis, brief one for a label: exact where it fits.
  function short(x) {
    for (const [unit, name] of [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
      if (x >= unit && x >= 1e4) return Number((x / unit).toPrecision(3)) + ' ' + name;
    }
    return n(x);
  }
  const brief = (x) => (x < 1e8 ? n(x) : short(x));

  // frame draws the vertical axis of a panel.
  function frame(svg, left, right, top, bottom, ticks, y) {
    for (const t of ticks) {
      if (bottom - y(t) < 16) continue; // its number would cover the 0
      add(svg, 'line', { x1: left, x2: right, y1: y(t), y2: y(t), class: 'grid' });
      add(svg, 'text', { x: left - 8, y: y(t) + 4, 'text-anchor': 'end' }, short(t));
    }
    add(svg, 'line', { x1: left, x2: right, y1: bottom, y2: bottom, class: 'base' });
    add(svg, 'text', { x: left - 8, y: bottom + 4, 'text-anchor': 'end' }, '0');
  }

  const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
  const TICKS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);

  // clock returns the time of day of an instant, with seconds if they matter.
  const clock = (ms, step) => new Date(ms).toISOString().slice(11, step < 6e4 ? 19 : 16);

  // tick returns the label of an instant on an axis: a day begins with its date.
  const tick = (ms, every) => (ms % DAY === 0 ? date.format(ms) : clock(ms, every));

  // lasting is a span such as 8 min 32 s.
  function lasting(ms) {
    const parts = [];
    for (const [unit, one, short] of [[DAY, 'day', 'd'], [36e5, 'hour', 'h'], [6e4, 'minute', 'min'], [1e3, 'second', 's'], [1, 'ms', 'ms']]) {
      const many = Math.floor(ms / unit);
      ms -= many * unit;
      if (many === 1 && ms === 0 && parts.length === 0) return one;
      if (many > 0) parts.push(n(many) + ' ' + short);
    }
    return parts.join(' ');
  }

  // copy puts text on the clipboard. The fallbacks are the command of older browsers, and
  // a selection for the keyboard.
  async function copy(code, status) {
    const report = (text) => { status.textContent = text; setTimeout(() => { if (status.textContent === text) status.textContent = ''; }, 4000); };
    try {
      await navigator.clipboard.writeText(code.textContent);
      return report('Copied');
    } catch (e) { /* not permitted, or an older browser */ }
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    let done = false;
    try { done = document.execCommand('copy'); } catch (e) { /* unknown command */ }
    report(done ? 'Copied' : 'Selected: press Ctrl+C or ⌘C');
  }

  // sortable turns the heads of a table into buttons.
  function sortable(table) {
    const body = table.tBodies[0];
    table.querySelectorAll('th').forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      const isText = column === 0;
      const value = (row) => (isText ? row.cells[0].textContent : Number(row.cells[column].dataset.v));
      const order = new Intl.Collator('en', { numeric: true });
      button.addEventListener('click', () => {
        const before = head.getAttribute('aria-sort');
        const isUp = before ? before === 'descending' : isText;
        table.querySelectorAll('th').forEach((h) => h.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', isUp ? 'ascending' : 'descending');
        const rows = [...body.rows];
        rows.sort((a, b) => (isUp ? 1 : -1) * (isText ? order.compare(value(a), value(b)) : value(a) - value(b)));
        body.append(...rows);
      });
    });
  }

  // theme connects the button that changes between light and dark.
  function theme(button) {
    const root = document.documentElement, system = matchMedia('(prefers-color-scheme: dark)');
    const isDark = () => (root.dataset.theme || (system.matches ? 'dark' : 'light')) === 'dark';
    const label = () => { button.textContent = isDark() ? 'Light colors' : 'Dark colors'; };
    button.hidden = false;
    button.addEventListener('click', () => { root.dataset.theme = isDark() ? 'light' : 'dark'; label(); });
    system.addEventListener('change', label);
    label();
  }

  return { DAY, TICKS, add, brief, clock, copy, date, frame, lasting, n, short, sortable, steps, theme, tick, width };
})();
