const $ = (id) => document.getElementById(id);

// ---- DOM helpers. They insert text only as text nodes, and leave unchanged nodes alone to keep selection and focus.

const el = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const attr = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
const show = (node, shown) => { if (node.hidden === shown) node.hidden = !shown; };

// fill updates a table to one row per item. The roles are needed because some browsers drop table semantics when CSS shows rows
// as cards on narrow screens.
const fill = (table, items, keyOf, make, update) => {
  const body = table.tBodies[0];
  if (!table.classList.contains('cards')) {
    table.classList.add('cards');
    attr(table, 'role', 'table');
    attr(table.tHead, 'role', 'rowgroup');
    attr(body, 'role', 'rowgroup');
    attr(table.tHead.rows[0], 'role', 'row');
    for (const cell of table.tHead.rows[0].cells) attr(cell, 'role', 'columnheader');
  }
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  let place = body.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = old.get(key);
    old.delete(key);
    if (!row) {
      row = el('tr', { role: 'row', 'data-key': key }, ...make(item));
      for (const cell of row.cells) attr(cell, 'role', cell.tagName === 'TH' ? 'rowheader' : 'cell');
    }
    if (row === place) place = place.nextElementSibling; else body.insertBefore(row, place);
    update(row.cells, item);
  }
  for (const row of old.values()) row.remove();
  show(table, items.length > 0);
};
const rowHead = (text, id) => el('th', { scope: 'row', class: id ? 'id' : null }, text);
const number = (label) => el('td', { class: 'n', 'data-label': label });
const count = (cell, n, bad) => {
  set(cell, n === null ? '' : n.toLocaleString('en'));
  attr(cell, 'class', 'n ' + (n ? bad : 'zero'));
};

// ---- Formatting. Times are UTC, as in the logs.

const clock = (text) => new Date(text).toISOString().slice(11, 19) + ' UTC';
const moment = (text) => new Date(text).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const duration = (s) => {
  if (s < 60) return Math.floor(s) + 's';
  if (s < 3600) return Math.floor(s / 60) + 'm';
  const pair = (n, unit, more, smaller) => Math.floor(n) + unit + (more >= 1 ? Math.floor(more) + smaller : '');
  return s < 86400 ? pair(s / 3600, 'h', s % 3600 / 60, 'm') : pair(s / 86400, 'd', s % 86400 / 3600, 'h');
};
const short = (n) => n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString('en') : n.toFixed(n < 1 ? 2 : 1);
const latency = (l) => {
  if (!l) return '–';
  const s = l.seconds;
  const text = s < .01 ? (s * 1000).toFixed(1) + ' ms' : s < 1 ? Math.round(s * 1000) + ' ms' : s.toFixed(1) + ' s';
  return (l.over ? 'over ' : '') + text;
};
const sum = (list, last) => (list || []).slice(last ? -last : 0).reduce((a, b) => a + b, 0);
const classes = ['answered', 'rejected', 'limited', 'failed'];
const requests = (route, last) => classes.reduce((n, c) => n + sum(route[c], last), 0);
const percent = (n, total) => !total ? '–' : !n ? 'none' : n / total < .001 ? 'under 0.1 %' : (100 * n / total).toFixed(n / total < .1 ? 1 : 0) + ' %';
