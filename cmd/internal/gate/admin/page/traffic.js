// ---- Traffic. Answered and rejected requests are plotted above the line, limited and failed requests below it.

const SVG = 'http://www.w3.org/2000/svg';
const svg = (name, attributes) => {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};

const RECENT = 18; // points, three minutes

// cutAt returns where bars of one half of a plot are cut, so that a flood does not hide what follows it: the maximum, unless it is more than
// four times the recent maximum. While requests fail (urgent) only the recent points count; otherwise the median does too, so
// that traffic that stops is still seen as a step down.
const cutAt = (values, urgent) => {
  const some = values.filter(Boolean).sort((a, b) => a - b), peak = some.at(-1) || 0;
  const usual = Math.max(...values.slice(-RECENT), urgent ? 0 : some[some.length >> 1] || 0, 0);
  return usual && peak > 4 * usual ? 1.25 * usual : peak;
};

// plot returns the plot of a route, its maximum, the values at which bars are cut, and the cut bars by half.
const plot = (route, points, height, label) => {
  const at = (c, i) => (route[c] || [])[i] || 0;
  const n = Math.max(...classes.map((c) => (route[c] || []).length), 0), first = points - n;
  const halves = [['answered', 'rejected'], ['failed', 'limited']];
  const values = halves.map((half) => Array.from({ length: n }, (_, i) => half.reduce((total, c) => total + at(c, i), 0)));
  const [up, down] = [cutAt(values[0], false), cutAt(values[1], sum(route.failed, RECENT) > 0)];
  const below = down ? Math.max(.25, Math.min(.6, down / (up + down))) * height : 3;
  const line = Math.round(height - below);
  const node = svg('svg', { viewBox: '0 0 ' + points * 6 + ' ' + height, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  const paths = { answered: '', rejected: '', limited: '', failed: '', cut: '' };
  const bar = (c, i, from, size) => { paths[c] += 'M' + ((first + i) * 6) + ' ' + from.toFixed(2) + 'h5v' + size.toFixed(2) + 'h-5z'; };
  const cuts = [[], []];
  const draw = (half, i, most, scale, room, from, direction) => {
    let y = from, left = most;
    for (const c of halves[half]) {
      const value = Math.min(at(c, i), left), size = value ? Math.max(2, value / scale * room) : 0; // a single request stays visible
      left -= value;
      if (size) bar(c, i, direction < 0 ? y - size : y, size);
      y += direction * size;
    }
    if (values[half][i] <= most) return;
    bar('cut', i, y - direction * 6, 2); // a gap near the end of the bar
    cuts[half].push({ place: (first + i + .5) / points, value: values[half][i] });
  };
  for (let i = 0; i < n; i++) {
    draw(0, i, up, Math.max(up, down, 1), line - 2, line, -1);
    draw(1, i, down, down || 1, below - 3, line + 1, 1);
  }
  node.append(svg('rect', { class: 'base', x: 0, y: line, width: points * 6, height: 1 }));
  for (const c of [...classes, 'cut']) if (paths[c]) node.append(svg('path', { class: c, d: paths[c] }));
  return { node, peak: Math.max(0, ...values[0].map((value, i) => value + values[1][i])), up, down, cuts };
};

// renderCuts shows the number of the tallest of each group of cut bars, beside the plot.
const renderCuts = (box, cuts, seconds) => {
  const groups = [];
  for (const c of cuts) {
    const group = groups.at(-1);
    if (!group || c.place - group.from > .25) groups.push({ from: c.place, to: c.place, value: c.value });
    else Object.assign(group, { to: c.place, value: Math.max(group.value, c.value) });
  }
  show(box, groups.length > 0);
  box.replaceChildren(...groups.map((g) => {
    const node = el('span', {}, short(g.value / seconds) + ' per second');
    node.style.left = Math.min(86, Math.max(14, 50 * (g.from + g.to))) + '%';
    return node;
  }));
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
    set($(id), percent(sum(total[c], 1), requests(total, 1)) + '; ' + percent(sum(total[c], last), n));
    attr($(id), 'class', sum(total[c], last) ? bad : '');
  }
  set($('f-p50'), latency(total.p50));
  set($('f-p99'), latency(total.p99));
};

const renderTraffic = (t) => {
  renderFigures(t);
  const span = duration(t.points_at_most * t.every_seconds);
  set($('span'), 'of the last ' + span);
  const { node, peak, up, down, cuts } = plot(t.total, t.points_at_most, 110, 'All routes: ' + plotLabel(t.total, span));
  $('plot').replaceChildren(node);
  const perSecond = (value) => short(value / t.every_seconds) + ' per second';
  const ends = [cuts[0].length ? perSecond(up) + ' above the line' : '', cuts[1].length ? perSecond(down) + ' below it' : ''].filter(Boolean).join(', ');
  set($('top'), !t.routes.length ? '' : 'maximum ' + perSecond(peak) + (ends ? '; bars with a gap are cut at ' + ends : ''));
  ['cuts-up', 'cuts-down'].forEach((id, half) => renderCuts($(id), cuts[half], t.every_seconds));
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
  set($('quiet'), t.routes.length ? 'Routes without requests are not listed.'
    : t.points ? 'No requests in the last ' + span + '.' : 'No data yet: the first point follows ' + t.every_seconds + 's after the start.');
};
