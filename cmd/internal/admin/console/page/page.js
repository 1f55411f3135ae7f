'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const SILENT = 6000; // without an event for so long, the connection is taken to be lost: an event comes every second

  // ---- Making and changing what is shown. All text goes in as text, and nothing is touched that stays the same: whoever has
  // selected or focused something keeps it.

  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const attr = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
  const show = (node, shown) => { if (node.hidden === shown) node.hidden = !shown; };

  // fill keeps a row for each item. On a narrow screen a row is a card, which is no table to some browsers: roles say what it is.
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

  // ---- Words for numbers and times. Times are UTC, as in the logs.

  const clock = (text) => new Date(text).toISOString().slice(11, 19) + ' UTC';
  const moment = (text) => new Date(text).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
  const lasting = (s) => {
    if (s < 60) return Math.floor(s) + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min';
    const pair = (n, unit, more, smaller) => Math.floor(n) + unit + (more >= 1 ? ' ' + Math.floor(more) + smaller : '');
    return s < 86400 ? pair(s / 3600, ' h', s % 3600 / 60, ' min') : pair(s / 86400, ' d', s % 86400 / 3600, ' h');
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
  const all = (route, last) => classes.reduce((n, c) => n + sum(route[c], last), 0);
  const part = (n, of) => !of ? '–' : !n ? 'none' : n / of < .001 ? 'under 0.1 %' : (100 * n / of).toFixed(n / of < .1 ? 1 : 0) + ' %';

  // ---- What is wrong.

  const marks = { well: '\u2713', impaired: '!', broken: '\u2715', unknown: '?' };
  const colours = { well: '17663a', impaired: '9a6000', broken: 'c2281f', unknown: '767e86' };
  let told = '';

  const icon = (verdict) => {
    const shape = verdict === 'broken' ? "<rect width='16' height='16'" : "<rect width='16' height='16' rx='8'";
    attr($('icon'), 'href', "data:image/svg+xml," + encodeURIComponent("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>" + shape +
      " fill='#" + colours[verdict] + "'/><text x='8' y='12.5' font-family='sans-serif' font-weight='700' font-size='12' fill='#fff' text-anchor='middle'>" +
      marks[verdict] + '</text></svg>'));
  };

  // judge says how it stands. Only a change of what is wrong is announced: times that run on are for the eye.
  const judge = (verdict, headline, detail, more, key) => {
    attr($('verdict'), 'data-verdict', verdict);
    set($('mark'), marks[verdict]);
    set($('headline'), headline);
    set($('headline-detail'), detail || '');
    show($('headline-detail'), !!detail);
    const items = more.map((f) => f.text + (f.detail ? ' \u2013 ' + f.detail : ''));
    const list = $('more');
    while (list.children.length > items.length) list.lastChild.remove();
    items.forEach((text, i) => set(list.children[i] || list.appendChild(el('li')), text));
    show(list, items.length > 0);
    document.title = headline + ' \u2013 opsgate';
    icon(verdict);
    if (key !== told) {
      told = key;
      set($('announce'), headline + (items.length ? '; and ' + items.length + ' more' : ''));
    }
  };

  // ---- How it stands.

  const dependencyRow = (cells, d) => {
    set(cells[1], (d.ok ? '\u2713 ' : '\u2715 ') + d.state);
    attr(cells[1], 'class', 'still ' + (d.ok ? 'well' : 'bad'));
    const b = d.breaker;
    set(cells[2], b ? b.text : '');
    attr(cells[2], 'class', !b || b.state === 'closed' ? 'zero' : b.state === 'open' ? 'bad' : 'warn');
    count(cells[3], d.in_flight, '');
    set(cells[4], b && b.cause || d.reason || '');
  };

  const renderState = (s) => {
    const [first, ...more] = s.findings;
    judge(s.verdict, first ? first.text : 'Everything is well', first && first.detail, more, s.findings.map((f) => f.key).join(' '));
    set($('who'), [s.host, s.version, 'up ' + lasting(s.up_seconds)].filter(Boolean).join(' \u00b7 '));
    fill($('needs'), s.dependencies, (d) => d.name,
      (d) => [el('th', { scope: 'row', class: 'side' }, d.name), el('td'), el('td', { 'data-label': 'breaker' }), number('in flight'), el('td', { class: 'detail full' })], dependencyRow);
    set($('limiter'), s.limiter.text);
    attr($('limiter'), 'class', s.limiter.ok ? '' : 'bad');
    set($('f-flight'), short(s.in_flight));
    fill($('busy'), s.busiest, (b) => b.token_id, busyRow, (cells, b) => {
      set(cells[0].lastChild, b.team_id);
      count(cells[1], b.requests, '');
      count(cells[2], b.denied, 'warn');
    });
    set($('busy-note'), s.busiest.length ? 'A request counts half as much after each minute.' : 'No token has asked of late.');
    renderConfig(s.config);
    set($('process'), Math.round(s.memory_bytes / 1048576).toLocaleString('en') + ' MiB of memory, ' + s.goroutines.toLocaleString('en') + ' goroutines');
  };

  const busyRow = (b) => {
    const button = el('button', { type: 'button', class: 'small', 'aria-label': 'Explain token ' + b.token_id }, 'Explain');
    button.addEventListener('click', () => {
      $('token-id').value = b.token_id;
      $('team-id').value = '';
      $('path').focus();
      $('t-explain').scrollIntoView({ block: 'start' });
    });
    const head = rowHead(b.token_id, true);
    head.append(el('small'));
    return [head, number('requests'), number('refused'), el('td', { class: 'act' }, button)];
  };

  const renderConfig = (c) => {
    set($('c-version'), c.version);
    set($('c-since'), moment(c.since));
    set($('c-file'), c.file || 'none: defaults, flags and environment');
    const r = c.last_reload;
    set($('c-reload'), r ? r.outcome + ' at ' + moment(r.at) + ' (' + r.why + ')' : 'none since the start');
    attr($('c-reload'), 'class', r && r.outcome === 'refused' ? 'bad' : '');
    const problems = r && r.problems || [];
    const list = $('c-problems');
    while (list.children.length > problems.length) list.lastChild.remove();
    problems.forEach((text, i) => set(list.children[i] || list.appendChild(el('li')), text));
    show(list, problems.length > 0);
  };

  // ---- Traffic. What is answered stands above the line and what is not below it, so that neither hides the other.

  const SVG = 'http://www.w3.org/2000/svg';
  const svg = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  const plot = (route, most, height, label) => {
    const at = (c, i) => (route[c] || [])[i] || 0;
    const n = Math.max(...classes.map((c) => (route[c] || []).length), 0);
    let up = 1, down = 0, peak = 0;
    for (let i = 0; i < n; i++) {
      peak = Math.max(peak, classes.reduce((sum, c) => sum + at(c, i), 0));
      up = Math.max(up, at('answered', i) + at('rejected', i));
      down = Math.max(down, at('limited', i) + at('failed', i));
    }
    const scale = Math.max(up, down);
    const below = down ? Math.max(.25, Math.min(.6, down / (up + down))) * height : 3;
    const line = Math.round(height - below);
    const node = svg('svg', { viewBox: '0 0 ' + most * 6 + ' ' + height, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
    const paths = { answered: '', rejected: '', limited: '', failed: '' };
    const bar = (c, i, from, size) => { paths[c] += 'M' + ((most - n + i) * 6) + ' ' + from + 'h5v' + size.toFixed(2) + 'h-5z'; };
    const tall = (value, room) => value ? Math.max(2, value / scale * room) : 0; // one request among thousands can still be seen
    for (let i = 0; i < n; i++) {
      let y = line;
      for (const c of ['answered', 'rejected']) { const h = tall(at(c, i), line - 2); if (h) bar(c, i, (y -= h).toFixed(2), h); }
      y = line + 1;
      for (const c of ['failed', 'limited']) { const h = tall(at(c, i), (below - 3) * scale / (down || 1)); if (h) { bar(c, i, y.toFixed(2), h); y += h; } }
    }
    node.append(svg('rect', { class: 'base', x: 0, y: line, width: most * 6, height: 1 }));
    for (const c of classes) if (paths[c]) node.append(svg('path', { class: c, d: paths[c] }));
    return { node, peak };
  };

  const words = (route, every, span) => {
    const n = all(route);
    return n.toLocaleString('en') + ' requests in the last ' + span + ': ' + sum(route.rejected) + ' were the client\u2019s mistake, ' +
      sum(route.limited) + ' over the limit, ' + sum(route.failed) + ' failed';
  };

  const renderFigures = (t) => {
    const last = Math.max(1, Math.round(60 / t.every_seconds)), total = t.total;
    const n = all(total, last), over = Math.min(last, t.points) * t.every_seconds;
    set($('f-rate'), over ? short(n / over) : '\u2013');
    for (const [id, c, bad] of [['f-failed', 'failed', 'bad'], ['f-limited', 'limited', 'warn']]) {
      set($(id), part(sum(total[c], last), n));
      attr($(id), 'class', sum(total[c], last) ? bad : '');
    }
    set($('f-p50'), latency(total.p50));
    set($('f-p99'), latency(total.p99));
  };

  const renderTraffic = (t) => {
    renderFigures(t);
    const span = lasting(t.points_at_most * t.every_seconds);
    set($('span'), 'of the last ' + span);
    const { node, peak } = plot(t.total, t.points_at_most, 110, 'All routes: ' + words(t.total, t.every_seconds, span));
    $('plot').replaceChildren(node);
    set($('top'), t.routes.length ? 'at most ' + short(peak / t.every_seconds) + ' a second' : '');
    set($('from'), span + ' ago');
    fill($('routes'), t.routes, (r) => r.name,
      (r) => [rowHead(r.name), el('td', { class: 'plot' }), number('requests'), number('4xx'), number('429'), number('5xx'), number('p50'), number('p99')],
      (cells, r) => {
        cells[1].replaceChildren(plot(r, t.points_at_most, 26, r.name + ': ' + words(r, t.every_seconds, span)).node);
        count(cells[2], all(r), '');
        count(cells[3], sum(r.rejected), '');
        count(cells[4], sum(r.limited), 'warn');
        count(cells[5], sum(r.failed), 'bad');
        set(cells[6], latency(r.p50));
        set(cells[7], latency(r.p99));
      });
    set($('quiet'), t.routes.length ? 'Routes without requests are left out' + (t.routes_left_out ? ', and so are ' + t.routes_left_out + ' more' : '') + '.'
      : t.points ? 'No requests in the last ' + span + '.' : 'Nothing is known yet: the first point comes ' + t.every_seconds + ' s after the start.');
    renderMinutes(t);
  };

  const renderMinutes = (t) => {
    const size = Math.max(1, Math.round(60 / t.every_seconds)), rows = [];
    for (let end = t.points; end > 0; end -= size) {
      const of = (c) => (t.total[c] || []).slice(Math.max(0, end - size), end).reduce((a, b) => a + b, 0);
      rows.push({ at: clock(new Date(t.end).getTime() - (t.points - end) * t.every_seconds * 1000), ...Object.fromEntries(classes.map((c) => [c, of(c)])) });
    }
    fill($('minutes'), rows, (r) => r.at, (r) => [rowHead(r.at), number('answered'), number('4xx'), number('429'), number('5xx')],
      (cells, r) => classes.forEach((c, i) => count(cells[i + 1], r[c], c === 'failed' ? 'bad' : c === 'limited' ? 'warn' : '')));
  };

  // ---- Asking. The token is in this variable and in the header of requests, and nowhere else.

  let token = '';
  const ask = (path, signal) => fetch(path, {
    headers: token ? { Authorization: 'Bearer ' + token } : {}, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error',
  });
  const refusal = async (response) => {
    try { return await response.json(); } catch { return { error: 'the gateway answers ' + response.status }; }
  };

  const openDoor = () => {
    show($('door'), true);
    set($('door-error'), token ? 'That is not the admin token of this gateway.' : '');
    token = '';
    judge('unknown', 'This gateway asks for its admin token', '', [], 'door');
    linkIs('not asked', '\u25cb');
    $('token').value = '';
    $('token').focus();
  };
  $('door').addEventListener('submit', (event) => {
    event.preventDefault();
    token = $('token').value.trim();
    $('token').value = '';
    show($('door'), false);
    follow();
  });

  // ---- The events, as server-sent ones: a stream of its own, as EventSource cannot send a token.

  let seen = null, attempt = 0, paused = false, connection = null, lost = 0;

  const linkIs = (text, mark) => { set($('link-text'), text); set($('link-mark'), mark); };

  const render = {
    state: (s) => {
      seen = s;
      if (paused) return;
      show($('all'), true);
      show($('pause'), true);
      $('all').classList.remove('stale');
      show($('as-of'), false);
      linkIs('live \u00b7 updated ' + clock(s.at), '\u25cf');
      renderState(s);
    },
    traffic: (t) => { if (!paused) renderTraffic(t); },
  };

  const take = (block) => {
    let name = 'message', data = '';
    for (const line of block.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (render[name] && data) render[name](JSON.parse(data));
  };

  const read = async (response, heard) => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      blocks.forEach(take);
    }
  };

  // follow reads events until they end, and begins again a while later.
  const follow = async () => {
    if (connection) connection.abort();
    const mine = connection = new AbortController();
    let silence = 0;
    const heard = () => { attempt = 0; clearTimeout(silence); silence = setTimeout(() => mine.abort(), SILENT); };
    let why = 'the gateway does not answer';
    try {
      silence = setTimeout(() => mine.abort(), 2 * SILENT);
      const response = await ask('/admin/events', mine.signal);
      if (response.status === 401) return openDoor();
      if (response.ok) {
        lost = 0;
        await read(response, heard);
        why = 'the gateway ended it';
      } else {
        why = (await refusal(response)).error;
      }
    } catch { /* why says it */ } finally { clearTimeout(silence); }
    if (connection === mine) miss(why);
  };

  // miss says that nothing comes, counts the seconds to the next attempt, and makes it.
  const miss = (why) => {
    lost = lost || Date.now();
    const wait = Math.min(15, 2 ** attempt++) * (.75 + Math.random() / 2), at = Date.now() + wait * 1000;
    const mine = connection;
    const tell = () => {
      if (connection !== mine) return;
      const left = Math.ceil((at - Date.now()) / 1000);
      linkIs('connection lost', '\u25cb');
      $('all').classList.add('stale');
      judge('unknown', 'Connection lost: ' + why, 'Lost ' + lasting((Date.now() - lost) / 1000) + ' ago; ' + (left > 0 ? 'trying again in ' + left + ' s' : 'trying again'), [], 'lost ' + why);
      set($('as-of'), seen ? 'What stands below was so at ' + clock(seen.at) + (seen.draining ? ', when the gateway was draining' : '') + '.' : '');
      show($('as-of'), !!seen);
      if (left > 0) setTimeout(tell, 250); else follow();
    };
    tell();
  };

  $('pause').addEventListener('click', () => {
    paused = !paused;
    attr($('pause'), 'aria-pressed', String(paused));
    set($('pause'), paused ? 'Go on' : 'Pause');
    if (paused) linkIs('paused' + (seen ? ' at ' + clock(seen.at) : ''), '\u25ae\u25ae');
    else follow();
  });

  // ---- Explaining.

  const outcome = { passes: ['\u2713 passes', 'well'], refuses: ['\u2715 refuses', 'bad'], unknown: ['? unknown', 'warn'] };
  const table = (caption, heads, rows) => {
    const t = el('table', {}, el('caption', { class: 'unseen' }, caption), el('thead', {}, el('tr', {}, ...heads.map((h) => el('th', { scope: 'col' }, h)))), el('tbody'));
    fill(t, rows, (r) => r.key, (r) => r.cells, (cells, r) => { if (r.decides) attr(cells[0].parentNode, 'class', 'decides'); });
    return t;
  };
  const line = (name, text) => el('p', {}, el('strong', {}, name + ' '), text);

  const verdictOf = (x) => {
    const a = x.answer, decides = x.checks.find((c) => c.name === a.because), unknown = x.checks.filter((c) => c.outcome === 'unknown' && c.name !== 'service').map((c) => c.name);
    const what = x.method + ' ' + x.path + ': ';
    if (!a.because) {
      return what + 'not refused by what is known' + (x.service ? ', reaches ' + x.service.name + ' (' + x.service.state + ')' : '') +
        (unknown.length ? '; unknown: ' + unknown.join(', ') : '');
    }
    return what + a.status + ' ' + a.code + ', because of ' + a.because + (a.text ? ': ' + ((a.details || a.status === 401) && decides ? decides.detail : a.text) : '') +
      (a.retry_after_seconds ? '; retry after ' + a.retry_after_seconds + ' s' : '');
  };

  const memory = { due: 'to be confirmed before it is used again', stale: 'used for as long as identity is away' };

  const explained = (x) => {
    const serviceOf = (s) => {
      const b = s.breaker && s.breaker.state !== 'closed' ? s.breaker : null, breaker = b ? 'breaker ' + b.state : '';
      return s.state + (b && s.state !== breaker ? ', ' + breaker : '') + (b && b.cause ? ' (' + b.cause + ')' : '');
    };
    const t = x.token, p = x.policy;
    const checks = x.checks.map((c, i) => ({
      key: String(i), decides: c.name === x.answer.because,
      cells: [el('th', { scope: 'row', class: 'still' }, (i + 1) + '. ' + c.name), el('td', { class: 'still ' + outcome[c.outcome][1] }, outcome[c.outcome][0]), el('td', { class: 'full' }, (c.detail || '') + (c.name === x.answer.because ? ' \u2013 this decides' : ''))],
    }));
    const limits = x.limits.map((l, i) => ({
      key: String(i),
      cells: [el('th', { scope: 'row' }, l.name + (l.shadow ? ' (shadow)' : '')), el('td', {}, l.requests.toLocaleString('en') + ' in ' + lasting(l.per_seconds)),
        el('td', { class: l.remaining === 0 ? 'bad' : '', 'data-label': 'left' }, l.remaining === null ? 'unknown' : l.remaining.toLocaleString('en')),
        el('td', { 'data-label': 'more in' }, l.reset_seconds === null ? 'unknown' : l.reset_seconds >= 10 ? lasting(l.reset_seconds) : l.reset_seconds ? l.reset_seconds.toFixed(1) + ' s' : '\u2013'), el('td', { class: 'detail full' }, l.origin)],
    }));
    const parts = [
      el('h3', {}, verdictOf(x)),
      table('Checks in their order; the first that refuses decides', ['Check', 'Outcome', 'Detail'], checks),
    ];
    if (limits.length) parts.push(table('Limits', ['Limit', 'Requests', 'Left', 'More in', 'Set at'], limits));
    parts.push(
      line('Token', t.how === 'revoked' ? 'revoked' + (t.team_id ? ', of team ' + t.team_id : '') : t.remembered ? 'of team ' + t.team_id + (t.ai_plan ? ', with the AI plan' : ', without the AI plan') + '; scopes: ' + ((t.scopes || []).join(', ') || 'none') + ' (' + (memory[t.how] || t.how) + ')' : 'not remembered by this gateway'),
      line('Policy', p.class + ', set by ' + p.key + ' (' + p.origin + ')' + (p.owner ? ', owner: ' + p.owner : '') + (p.reason ? ', reason: ' + p.reason : '') +
        (p.expires ? ', until ' + moment(p.expires) : '') + (p.team_unknown ? '; another may hold, as the team is not known' : '')),
      line('identity', serviceOf(x.identity)));
    if (x.service) parts.push(line(x.service.name, serviceOf(x.service)));
    return parts;
  };

  const failedExplanation = (f) => [el('p', { class: 'bad' }, f.error), ...Object.entries(f.details || {}).map(([name, text]) => el('p', {}, name + ' ' + text))];

  $('explain').addEventListener('submit', async (event) => {
    event.preventDefault();
    const id = $('token-id').value.trim(), team = $('team-id').value.trim();
    let parts;
    if (/_live_/.test(id)) {
      $('token-id').value = '';
      parts = failedExplanation({ error: 'That is a token, which was not sent anywhere. Its id stands in the access log.' });
    } else {
      const query = new URLSearchParams({ method: $('method').value, path: $('path').value.trim(), token_id: id });
      if (team) query.set('team_id', team);
      try {
        const response = await ask('/admin/explain?' + query);
        parts = response.ok ? explained(await response.json()) : failedExplanation(await refusal(response));
      } catch { parts = failedExplanation({ error: 'The gateway does not answer.' }); }
    }
    $('answer').replaceChildren(...parts);
    show($('answer'), true);
    set($('announce'), parts[0].textContent); // the rest is there to be read
  });

  follow();
})();
