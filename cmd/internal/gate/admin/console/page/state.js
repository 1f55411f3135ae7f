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

// showVerdict updates the headline, with the runbook of the first finding. Screen readers hear it only when the key changes, not with each change of a duration.
const showVerdict = (verdict, headline, detail, more, key, runbook) => {
  attr($('verdict'), 'data-verdict', verdict);
  set($('mark'), marks[verdict]);
  set($('headline'), headline);
  set($('headline-detail'), detail || '');
  show($('headline-detail'), !!detail);
  show($('headline-runbook'), !!runbook);
  linkRunbook($('headline-runbook').firstChild, runbook);
  const list = $('more');
  while (list.children.length > more.length) list.lastChild.remove();
  more.forEach((f, i) => {
    const item = list.children[i] || list.appendChild(el('li', {}, el('span'), ' ', runbookLink()));
    set(item.firstChild, f.text + (f.detail ? ' \u2013 ' + f.detail : ''));
    linkRunbook(item.lastChild, f.runbook);
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
  attr(cells[1], 'class', 'still ' + (d.ok ? 'well' : 'bad'));
  const b = d.breaker;
  set(cells[2], b ? b.text : '');
  attr(cells[2], 'class', !b || b.state === 'closed' ? 'zero' : b.state === 'open' ? 'bad' : 'warn');
  count(cells[3], d.in_flight, '');
  if (d.load) set(cells[3], d.load.current.toLocaleString('en') + ' of ' + d.load.limit.toLocaleString('en'));
  endpoints(cells[4], d.endpoints || []);
  set(cells[5], b && b.cause || d.reason || '');
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
  showVerdict(s.verdict, first ? first.text : 'Everything is well', first && first.detail, more, s.findings.map((f) => f.key).join(' '), first && first.runbook);
  set($('who'), [s.host, s.version, 'up ' + duration(s.up_seconds)].filter(Boolean).join(' \u00b7 '));
  fill($('needs'), s.dependencies, (d) => d.name,
    (d) => [el('th', { scope: 'row', class: 'side' }, d.name), el('td'), el('td', { 'data-label': 'breaker' }), number('in use'), el('td', { class: 'endpoints', 'data-label': 'endpoints' }), el('td', { class: 'detail full' })], dependencyRow);
  renderGateways(s.gateways);
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
