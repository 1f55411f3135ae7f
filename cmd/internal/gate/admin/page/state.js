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

// A link to a runbook opens another tab, because this page has the admin token only until it is left.
const runbookLink = () => el('a', { target: '_blank', rel: 'noopener', hidden: '' });
const linkRunbook = (link, runbook) => {
  show(link, !!runbook);
  if (!runbook) return;
  attr(link, 'href', '/runbooks/' + runbook.replace('.md', '.html'));
  set(link, 'Runbook: ' + runbook.replace(/.*#/, '').replaceAll('-', ' '));
};
$('headline-runbook').append(runbookLink());

// showAdvice fills a list with what an operator reads first about a finding.
const showAdvice = (list, f) => {
  const lines = f.impact ? [['Impact', f.impact], ['Later', f.deadline], ['Do first', f.action]] : [];
  while (list.children.length > lines.length) list.lastChild.remove();
  lines.forEach(([name, text], i) => {
    const line = list.children[i] || list.appendChild(el('div', {}, el('dt'), ' ', el('dd')));
    set(line.firstChild, name);
    set(line.lastChild, text);
  });
  show(list, lines.length > 0);
};

// showVerdict updates the headline, with the advice and the runbook of the first finding. Screen readers hear it only when the key changes, not with each change of a duration.
const showVerdict = (verdict, headline, detail, more, key, first = {}) => {
  attr($('verdict'), 'data-verdict', verdict);
  set($('mark'), marks[verdict]);
  set($('headline'), headline);
  set($('headline-detail'), detail || '');
  show($('headline-detail'), !!detail);
  showAdvice($('headline-advice'), first);
  show($('headline-runbook'), !!first.runbook);
  linkRunbook($('headline-runbook').firstChild, first.runbook);
  const list = $('more');
  while (list.children.length > more.length) list.lastChild.remove();
  more.forEach((f, i) => {
    const item = list.children[i] || list.appendChild(el('li', {}, el('span'), ' ', runbookLink(), el('dl')));
    const [text, link, advice] = item.children;
    set(text, f.text + (f.detail ? ' \u2013 ' + f.detail : ''));
    linkRunbook(link, f.runbook);
    showAdvice(advice, f);
  });
  show(list, more.length > 0);
  document.title = headline + ' \u2013 opsgate';
  icon(verdict);
  if (key !== announced) {
    announced = key;
    set($('announce'), headline + (more.length ? '; and ' + more.length + ' more' : ''));
  }
};

// ---- State.

const dependencyRow = (cells, d) => {
  set(cells[1], (d.ok ? '\u2713 ' : '\u2715 ') + d.state + (d.since ? ' for ' + ago(d.since) : ''));
  attr(cells[1], 'class', 'still ' + ({ well: 'well', impaired: 'warn', broken: 'bad' })[d.ok || d.verdict !== 'well' ? d.verdict : 'broken']);
  const b = d.breaker;
  set(cells[2], d.breaker_text);
  attr(cells[2], 'class', !b || b.state === 'closed' ? 'zero' : b.state === 'open' ? 'bad' : 'warn');
  set(cells[3], d.in_use);
  set(cells[4], latencies(d.latencies));
  endpoints(cells[5], d.endpoints || []);
  set(cells[6], b && b.cause || d.reason || '');
};

// latencies returns the latencies of a service in the last ten seconds and five minutes.
const latencies = (l) => {
  if (!l || !l.p99_of_5m) return '';
  const pair = (p50, p99) => (p99 ? latency(p50) + '; ' + latency(p99) : 'no calls').replaceAll(' ', '\u00a0');
  return pair(l.p50, l.p99) + '\n(' + pair(l.p50_of_5m, l.p99_of_5m) + ')';
};

// endpoints shows the endpoints of a service as a summary that opens.
const endpoints = (cell, list) => {
  const states = {};
  for (const e of list) states[e.state] = (states[e.state] || 0) + 1;
  const { ready = 0, ...others } = states;
  const summary = [ready + ' of ' + list.length + ' ready', ...Object.entries(others).map(([state, n]) => n + ' ' + state)].join(', ');
  const details = cell.firstChild || cell.appendChild(el('details', {}, el('summary'), el('ul')));
  show(details, list.length > 0);
  if (!list.length) return;
  set(details.firstChild, summary);
  attr(details.firstChild, 'class', ready === list.length ? '' : ready ? 'warn' : 'bad');
  const items = details.lastChild;
  while (items.children.length > list.length) items.lastChild.remove();
  list.forEach((e, i) => set(items.children[i] || items.appendChild(el('li')), e.address + ' ' + (e.state === 'ready' ? '\u2713 ' : '\u2715 ') + e.state +
    (e.state !== 'ready' && e.since ? ' for ' + ago(e.since) : '') + ', ' + e.in_flight + ' in flight' + (e.cause ? ': ' + e.cause : '')));
};

// ago returns the time from a moment to the state that is shown.
let now = 0;
const ago = (text) => duration(Math.max(0, now - new Date(text)) / 1000);

const renderState = (s) => {
  now = new Date(s.at).getTime();
  const [first, ...more] = s.findings;
  showVerdict(s.verdict, first ? first.text : 'Everything is well' + (requests(s.traffic.total, 6) ? '' : '; no traffic in the last minute'), first && first.detail, more, s.findings.map((f) => f.key).join(' '), first);
  set($('who'), [s.host, s.version, 'up ' + duration(s.up_seconds)].filter(Boolean).join(' \u00b7 '));
  fill($('needs'), s.dependencies, (d) => d.name,
    (d) => [el('th', { scope: 'row', class: 'side' }, d.name), el('td'), el('td', { 'data-label': 'breaker' }), number('in use'), el('td', { class: 'lines', 'data-label': 'latency' }), el('td', { class: 'endpoints', 'data-label': 'endpoints' }), el('td', { class: 'detail full' })], dependencyRow);
  set($('limiter'), s.limits);
  attr($('limiter'), 'class', s.dependencies.some((d) => d.name === 'redis' && !d.ok) ? 'bad' : '');
  set($('f-flight'), short(s.in_flight));
  fill($('busy'), s.busiest, (b) => b.token_id, busyRow, (cells, b) => {
    const [name, , team] = cells[0].children;
    set(name, b.token_name || '');
    set(team.firstChild, b.team_name || '');
    count(cells[1], b.requests, '');
    count(cells[2], b.denied, 'warn');
  });
  set($('busy-note'), s.busiest.length ? 'A request counts half as much after each minute.' : 'No token has sent requests recently.');
  renderConfig(s.config);
};

const busyRow = (b) => {
  const button = el('button', { type: 'button', class: 'small', 'aria-label': 'Explain token ' + b.token_id }, 'Explain');
  button.addEventListener('click', () => {
    $('token-id').value = b.token_id;
    $('team-id').value = '';
    $('explain').requestSubmit();
    $('t-explain').scrollIntoView({ block: 'start' });
  });
  const head = rowHead('', true);
  head.append(el('bdi'), el('span', {}, b.token_id), el('small', {}, el('bdi'), ' ' + b.team_id));
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
  fill($('certificates'), c.certificates || [], (e) => e.key, (e) => [rowHead(e.key, true), el('td', { 'data-label': 'expires' })], ([, cell], e) => {
    const left = (new Date(e.ends) - now) / 1000;
    const early = new Date(e.begins) > now;
    set(cell, moment(e.ends) + (left > 0 ? ', in ' + duration(left) : ': \u2715 expired') + (early ? ': \u2715 not valid before ' + moment(e.begins) : ''));
    attr(cell, 'class', early || left < 7 * 86400 ? 'bad' : left < 30 * 86400 ? 'warn' : '');
  });
};
