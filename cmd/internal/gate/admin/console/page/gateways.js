
// ---- Gateways that share a Redis. A difference is stated in words, not only by colour.

const modes = {
  memory: ['in memory', 'zero'], shared: ['\u2713 shared', ''], local: ['! local', 'warn'], allow: ['! allow all', 'warn'], deny: ['\u2715 deny all', 'bad'],
};

// outliers returns whether a value differs from that of the majority. Without a majority all of them differ.
const outliers = (values) => {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return (value) => counts.size > 1 && !(value === first[0] && first[1] > second[1]);
};

const sentence = (text = '') => text.slice(0, 1).toUpperCase() + text.slice(1) + '.';

const gatewaysText = (f, n) => ({
  memory: 'Limits are counted in memory, so gateways do not know each other: this page shows only this one.',
  reading: 'Reading the other gateways from Redis.' + (f.read_at ? ' They are as they were ' + ago(f.read_at) + ' ago.' : ''),
  current: n === 1 ? 'This is the only gateway that uses this Redis.' : n + ' gateways share a Redis.',
  stale: '\u2715 ' + sentence(f.error) + (f.read_at ? ' They are as they were ' + ago(f.read_at) + ' ago.' : ' They are unknown.'),
})[f.state] + (f.error && f.state !== 'stale' ? ' ' + sentence(f.error) : '') + (f.omitted ? ' ' + f.omitted + ' more are not listed.' : '');

// mark sets the text of a cell, with a remark that states what is wrong with it.
const mark = (cell, text, remark, colour = 'warn') => {
  set(cell, text + (remark ? ' ' + remark : ''));
  attr(cell, 'class', remark ? colour : '');
};

const renderGateways = (f) => {
  const list = f.gateways || [];
  set($('gateways-note'), gatewaysText(f, list.length));
  attr($('gateways-note'), 'class', f.state === 'stale' ? 'bad' : f.error ? 'warn' : '');
  const current = f.state === 'current'; // what is not is neither compared nor marked as well
  const reporting = current ? list.filter((g) => !g.unknown && !g.silent) : [], oddVersion = outliers(reporting.map((g) => g.version + g.revision)), oddConfig = outliers(reporting.map((g) => g.config_version)),
    oddLimits = outliers(reporting.map((g) => g.limits_version).filter(Boolean));
  fill($('gateways'), f.state === 'memory' ? [] : list, (g) => g.id, gatewayRow, (cells, g) => {
    const [name, place] = cells[0].children;
    set(name, g.host || g.id);
    set(place, [g.self ? 'this gateway' : '', g.admin_listen, g.draining ? 'draining' : ''].filter(Boolean).join(' \u00b7 '));
    const old = g.self ? '' : g.silent ? '\u2715 silent, last heard ' + ago(g.heard_at) + ' ago' : g.unknown ? '? reports no status' : '';
    mark(cells[1], old ? '' : (current || g.self ? '\u2713 ' : '? ') + (g.self ? 'live' : ago(g.heard_at) + ' ago'), old, g.silent ? 'bad' : 'warn');
    attr(cells[0].parentNode, 'class', g.silent || !current && !g.self ? 'silent' : '');
    if (g.unknown) {
      for (const cell of [...cells].slice(2)) mark(cell, '');
      return;
    }
    mark(cells[2], g.ready && !g.silent ? '\u2713 ready' : '', g.ready === false && !g.silent ? '\u2715 not ready' : '', 'bad');
    mark(cells[3], g.version, oddVersion(g.version + g.revision) && !g.silent ? '\u2260 differs (' + g.revision.slice(0, 12) + ')' : '');
    mark(cells[4], g.config_version, [oddConfig(g.config_version) && !g.silent ? '\u2260 differs' : '',
      g.limits_version && oddLimits(g.limits_version) && !g.silent ? '\u2260 limits differ' : '', g.config_refused ? '\u2715 refused the file' : ''].filter(Boolean).join(', '), g.config_refused ? 'bad' : 'warn');
    const [mode, colour] = modes[g.mode] || [g.mode, ''];
    set(cells[5], mode + (g.mode_since && g.mode !== 'shared' ? ' for ' + ago(g.mode_since) : ''));
    attr(cells[5], 'class', colour);
    mark(cells[6], g.breakers.length ? '' : 'closed', g.breakers.length ? '\u2715 ' + g.breakers.join(', ') : '', 'bad');
    [[7, g.rps, ''], [8, g.failed_rps, 'bad'], [9, g.limited_rps, 'warn']].forEach(([i, rate, wrong]) => {
      set(cells[i], short(rate));
      attr(cells[i], 'class', 'n ' + (rate ? wrong : 'zero'));
    });
  });
};

const gatewayRow = () => {
  const label = (text) => el('td', { 'data-label': text });
  return [el('th', { scope: 'row', class: 'side' }, el('span'), el('small')), label('heard'), label('ready'), label('version'), label('configuration'), label('limits'), label('breakers'),
    number('per second'), number('5xx'), number('429')];
};

