'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const TIMEOUT = 6000; // ms without an event after which the connection counts as lost; events come every second

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

  // ---- The verdict.

  const marks = { well: '\u2713', impaired: '!', broken: '\u2715', unknown: '?' };
  const colours = { well: '17663a', impaired: '9a6000', broken: 'c2281f', unknown: '767e86' };
  let announced = ''; // key

  const icon = (verdict) => {
    const shape = verdict === 'broken' ? "<rect width='16' height='16'" : "<rect width='16' height='16' rx='8'";
    attr($('icon'), 'href', "data:image/svg+xml," + encodeURIComponent("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>" + shape +
      " fill='#" + colours[verdict] + "'/><text x='8' y='12.5' font-family='sans-serif' font-weight='700' font-size='12' fill='#fff' text-anchor='middle'>" +
      marks[verdict] + '</text></svg>'));
  };

  // showVerdict updates the headline. Screen readers hear it only when the key changes, not with each change of a duration.
  const showVerdict = (verdict, headline, detail, more, key) => {
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
    if (key !== announced) {
      announced = key;
      set($('announce'), headline + (items.length ? '; and ' + items.length + ' more' : ''));
    }
  };

  // ---- State.

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
    showVerdict(s.verdict, first ? first.text : 'Everything is well', first && first.detail, more, s.findings.map((f) => f.key).join(' '));
    set($('who'), [s.host, s.version, 'up ' + duration(s.up_seconds)].filter(Boolean).join(' \u00b7 '));
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
    set($('busy-note'), s.busiest.length ? 'A request counts half as much after each minute.' : 'No token has sent requests recently.');
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

  // ---- Traffic. Answered and rejected requests are plotted above the line, limited and failed requests below it.

  const SVG = 'http://www.w3.org/2000/svg';
  const svg = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  const plot = (route, points, height, label) => {
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
    const node = svg('svg', { viewBox: '0 0 ' + points * 6 + ' ' + height, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
    const paths = { answered: '', rejected: '', limited: '', failed: '' };
    const bar = (c, i, from, size) => { paths[c] += 'M' + ((points - n + i) * 6) + ' ' + from + 'h5v' + size.toFixed(2) + 'h-5z'; };
    const barHeight = (value, room) => value ? Math.max(2, value / scale * room) : 0; // a single request stays visible
    for (let i = 0; i < n; i++) {
      let y = line;
      for (const c of ['answered', 'rejected']) { const h = barHeight(at(c, i), line - 2); if (h) bar(c, i, (y -= h).toFixed(2), h); }
      y = line + 1;
      for (const c of ['failed', 'limited']) { const h = barHeight(at(c, i), (below - 3) * scale / (down || 1)); if (h) { bar(c, i, y.toFixed(2), h); y += h; } }
    }
    node.append(svg('rect', { class: 'base', x: 0, y: line, width: points * 6, height: 1 }));
    for (const c of classes) if (paths[c]) node.append(svg('path', { class: c, d: paths[c] }));
    return { node, peak };
  };

  const plotLabel = (route, span) => {
    const n = requests(route);
    return n.toLocaleString('en') + ' requests in the last ' + span + ': ' + sum(route.rejected) + ' were client errors, ' +
      sum(route.limited) + ' over the limit, ' + sum(route.failed) + ' failed';
  };

  const renderFigures = (t) => {
    const last = Math.max(1, Math.round(60 / t.every_seconds)), total = t.total;
    const n = requests(total, last), seconds = Math.min(last, t.points) * t.every_seconds;
    set($('f-rate'), seconds ? short(n / seconds) : '\u2013');
    for (const [id, c, bad] of [['f-failed', 'failed', 'bad'], ['f-limited', 'limited', 'warn']]) {
      set($(id), percent(sum(total[c], last), n));
      attr($(id), 'class', sum(total[c], last) ? bad : '');
    }
    set($('f-p50'), latency(total.p50));
    set($('f-p99'), latency(total.p99));
  };

  const renderTraffic = (t) => {
    renderFigures(t);
    const span = duration(t.points_at_most * t.every_seconds);
    set($('span'), 'of the last ' + span);
    const { node, peak } = plot(t.total, t.points_at_most, 110, 'All routes: ' + plotLabel(t.total, span));
    $('plot').replaceChildren(node);
    set($('top'), t.routes.length ? 'maximum ' + short(peak / t.every_seconds) + ' per second' : '');
    set($('from'), span + ' ago');
    fill($('routes'), t.routes, (r) => r.name,
      (r) => [rowHead(r.name), el('td', { class: 'plot' }), number('requests'), number('4xx'), number('429'), number('5xx'), number('p50'), number('p99')],
      (cells, r) => {
        cells[1].replaceChildren(plot(r, t.points_at_most, 26, r.name + ': ' + plotLabel(r, span)).node);
        count(cells[2], requests(r), '');
        count(cells[3], sum(r.rejected), '');
        count(cells[4], sum(r.limited), 'warn');
        count(cells[5], sum(r.failed), 'bad');
        set(cells[6], latency(r.p50));
        set(cells[7], latency(r.p99));
      });
    set($('quiet'), t.routes.length ? 'Routes without requests are not listed' + (t.routes_left_out ? ', nor are ' + t.routes_left_out + ' others' : '') + '.'
      : t.points ? 'No requests in the last ' + span + '.' : 'No data yet: the first point follows ' + t.every_seconds + 's after the start.');
    renderMinutes(t);
  };

  const renderMinutes = (t) => {
    const size = Math.max(1, Math.round(60 / t.every_seconds)), rows = [];
    for (let end = t.points; end > 0; end -= size) {
      const total = (c) => (t.total[c] || []).slice(Math.max(0, end - size), end).reduce((a, b) => a + b, 0);
      rows.push({ at: clock(new Date(t.end).getTime() - (t.points - end) * t.every_seconds * 1000), ...Object.fromEntries(classes.map((c) => [c, total(c)])) });
    }
    fill($('minutes'), rows, (r) => r.at, (r) => [rowHead(r.at), number('answered'), number('4xx'), number('429'), number('5xx')],
      (cells, r) => classes.forEach((c, i) => count(cells[i + 1], r[c], c === 'failed' ? 'bad' : c === 'limited' ? 'warn' : '')));
  };

  // ---- Requests. The admin token is only in this variable and in the header of requests.

  let token = '';
  const request = (path, signal) => fetch(path, {
    headers: token ? { Authorization: 'Bearer ' + token } : {}, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error',
  });
  const refusal = async (response) => {
    try { return await response.json(); } catch { return { error: 'the gateway responded with ' + response.status }; }
  };

  const askForToken = () => {
    show($('door'), true);
    set($('door-error'), token ? 'That is not the admin token of this gateway.' : '');
    token = '';
    showVerdict('unknown', 'This gateway requires its admin token', '', [], 'door');
    setLink('not connected', '\u25cb');
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

  // ---- Server-sent events. EventSource cannot send a token, so this uses fetch.

  let latest = null, attempt = 0, paused = false, connection = null, lost = 0;

  const setLink = (text, mark) => { set($('link-text'), text); set($('link-mark'), mark); };

  const render = {
    state: (s) => {
      latest = s;
      if (paused) return;
      show($('all'), true);
      show($('pause'), true);
      $('all').classList.remove('stale');
      show($('as-of'), false);
      setLink('live \u00b7 updated ' + clock(s.at), '\u25cf');
      renderState(s);
    },
    traffic: (t) => { if (!paused) renderTraffic(t); },
  };

  const dispatch = (block) => {
    let name = 'message', data = '';
    for (const line of block.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (render[name] && data) render[name](JSON.parse(data));
  };

  const read = async (response, onData) => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      onData();
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      blocks.forEach(dispatch);
    }
  };

  // follow reads events until the stream ends, then schedules a reconnect.
  const follow = async () => {
    if (connection) connection.abort();
    const mine = connection = new AbortController();
    let timer = 0;
    const onData = () => { attempt = 0; clearTimeout(timer); timer = setTimeout(() => mine.abort(), TIMEOUT); };
    let why = 'no response from the gateway';
    try {
      timer = setTimeout(() => mine.abort(), 2 * TIMEOUT);
      const response = await request('/admin/events', mine.signal);
      if (response.status === 401) return askForToken();
      if (response.ok) {
        lost = 0;
        await read(response, onData);
        why = 'the gateway closed it';
      } else {
        why = (await refusal(response)).error;
      }
    } catch { /* reported as why */ } finally { clearTimeout(timer); }
    if (connection === mine) reconnect(why);
  };

  // reconnect shows that the connection is lost and connects again after a backoff.
  const reconnect = (why) => {
    lost = lost || Date.now();
    const wait = Math.min(15, 2 ** attempt++) * (.75 + Math.random() / 2), at = Date.now() + wait * 1000;
    const mine = connection;
    const update = () => {
      if (connection !== mine) return;
      const left = Math.ceil((at - Date.now()) / 1000);
      setLink('connection lost', '\u25cb');
      $('all').classList.add('stale');
      showVerdict('unknown', 'Connection lost: ' + why, 'Lost ' + duration((Date.now() - lost) / 1000) + ' ago; ' + (left > 0 ? 'trying again in ' + left + 's' : 'trying again'), [], 'lost ' + why);
      set($('as-of'), latest ? 'The data below is from ' + clock(latest.at) + (latest.draining ? ', when the gateway was draining' : '') + '.' : '');
      show($('as-of'), !!latest);
      if (left > 0) setTimeout(update, 250); else follow();
    };
    update();
  };

  $('pause').addEventListener('click', () => {
    paused = !paused;
    attr($('pause'), 'aria-pressed', String(paused));
    set($('pause'), paused ? 'Resume' : 'Pause');
    if (paused) setLink('paused' + (latest ? ' at ' + clock(latest.at) : ''), '\u25ae\u25ae');
    else follow();
  });

  // ---- Explanations.

  const outcome = { passes: ['\u2713 passes', 'well'], refuses: ['\u2715 refuses', 'bad'], unknown: ['? unknown', 'warn'] };
  const table = (caption, heads, rows) => {
    const t = el('table', {}, el('caption', { class: 'unseen' }, caption), el('thead', {}, el('tr', {}, ...heads.map((h) => el('th', { scope: 'col' }, h)))), el('tbody'));
    fill(t, rows, (r) => r.key, (r) => r.cells, (cells, r) => { if (r.decides) attr(cells[0].parentNode, 'class', 'decides'); });
    return t;
  };
  const line = (name, text) => el('p', {}, el('strong', {}, name + ' '), text);

  const summaryOf = (x) => {
    const a = x.answer, decides = x.checks.find((c) => c.name === a.because), unknown = x.checks.filter((c) => c.outcome === 'unknown' && c.name !== 'service').map((c) => c.name);
    const what = x.method + ' ' + x.path + ': ';
    if (!a.because) {
      return what + 'not refused by the known checks' + (x.service ? ', reaches ' + x.service.name + ' (' + x.service.state + ')' : '') +
        (unknown.length ? '; unknown: ' + unknown.join(', ') : '');
    }
    return what + a.status + ' ' + a.code + ', because of ' + a.because + (a.text ? ': ' + ((a.details || a.status === 401) && decides ? decides.detail : a.text) : '') +
      (a.retry_after_seconds ? '; retry after ' + a.retry_after_seconds + 's' : '');
  };

  const freshness = { due: 'to be confirmed before its next use', stale: 'used only while identity is unavailable' };

  const explained = (x) => {
    const serviceOf = (s) => {
      const b = s.breaker && s.breaker.state !== 'closed' ? s.breaker : null, breaker = b ? 'breaker ' + b.state : '';
      return s.state + (b && s.state !== breaker ? ', ' + breaker : '') + (b && b.cause ? ' (' + b.cause + ')' : '');
    };
    const t = x.token, p = x.policy;
    const checks = x.checks.map((c, i) => ({
      key: String(i), decides: c.name === x.answer.because,
      cells: [el('th', { scope: 'row', class: 'still' }, (i + 1) + '. ' + c.name), el('td', { class: 'still ' + outcome[c.outcome][1] }, outcome[c.outcome][0]), el('td', { class: 'full' }, (c.detail || '') + (c.name === x.answer.because ? ' \u2013 decisive' : ''))],
    }));
    const limits = x.limits.map((l, i) => ({
      key: String(i),
      cells: [el('th', { scope: 'row' }, l.name + (l.shadow ? ' (shadow)' : '')), el('td', {}, l.requests.toLocaleString('en') + ' in ' + duration(l.per_seconds)),
        el('td', { class: l.remaining === 0 ? 'bad' : '', 'data-label': 'left' }, l.remaining === null ? 'unknown' : l.remaining.toLocaleString('en')),
        el('td', { 'data-label': 'more in' }, l.reset_seconds === null ? 'unknown' : l.reset_seconds >= 10 ? duration(l.reset_seconds) : l.reset_seconds ? l.reset_seconds.toFixed(1) + 's' : '\u2013'), el('td', { class: 'detail full' }, l.origin)],
    }));
    const parts = [
      el('h3', {}, summaryOf(x)),
      table('Checks in order; the first that refuses is decisive', ['Check', 'Outcome', 'Detail'], checks),
    ];
    if (limits.length) parts.push(table('Limits', ['Limit', 'Requests', 'Left', 'More in', 'Set at'], limits));
    parts.push(
      line('Token', t.how === 'revoked' ? 'revoked' + (t.team_id ? ', of team ' + t.team_id : '') : t.remembered ? 'of team ' + t.team_id + (t.ai_plan ? ', with the AI plan' : ', without the AI plan') + '; scopes: ' + ((t.scopes || []).join(', ') || 'none') + ' (' + (freshness[t.how] || t.how) + ')' : 'not cached by this gateway'),
      line('Policy', p.class + ', set by ' + p.key + ' (' + p.origin + ')' + (p.owner ? ', owner: ' + p.owner : '') + (p.reason ? ', reason: ' + p.reason : '') +
        (p.expires ? ', until ' + moment(p.expires) : '') + (p.team_unknown ? '; the team is unknown and may have another policy' : '')),
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
      parts = failedExplanation({ error: 'That is a token. It was not sent. Use its id, which is in the access log.' });
    } else {
      const query = new URLSearchParams({ method: $('method').value, path: $('path').value.trim(), token_id: id });
      if (team) query.set('team_id', team);
      try {
        const response = await request('/admin/explain?' + query);
        parts = response.ok ? explained(await response.json()) : failedExplanation(await refusal(response));
      } catch { parts = failedExplanation({ error: 'No response from the gateway.' }); }
    }
    $('answer').replaceChildren(...parts);
    show($('answer'), true);
    set($('announce'), parts[0].textContent); // the rest follows in the page
  });

  follow();
})();
