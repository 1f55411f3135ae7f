// ---- Explanations.

const outcome = { passes: ['\u2713 passes', 'well'], refuses: ['\u2715 refuses', 'bad'], unknown: ['? unknown', 'warn'] };
const table = (caption, heads, rows) => {
  const t = el('table', {}, el('caption', { class: 'unseen' }, caption), el('thead', {}, el('tr', {}, ...heads.map((h) => el('th', { scope: 'col' }, h)))), el('tbody'));
  fill(t, rows, (r) => r.key, (r) => r.cells, (cells, r) => { if (r.decides) attr(cells[0].parentNode, 'class', 'decides'); });
  return t;
};
const bdi = (name = '') => el('bdi', {}, name);
const line = (name, ...parts) => el('p', {}, el('strong', {}, name + ' '), ...parts);

const summaryOf = (x) => {
  const a = x.answer, decides = x.checks.find((c) => c.name === a.failed_check), unknown = x.checks.filter((c) => c.outcome === 'unknown' && c.name !== 'service').map((c) => c.name);
  const what = x.method + ' ' + x.path + ': ';
  if (!a.failed_check) {
    return what + 'not refused by the known checks' + (x.service ? ', reaches ' + x.service.name + ' (' + x.service.state + ')' : '') +
      (unknown.length ? '; unknown: ' + unknown.join(', ') : '');
  }
  return what + a.status + ' ' + a.code + ', because of ' + a.failed_check + (a.text ? ': ' + ((a.details || a.status === 401) && decides ? decides.detail : a.text) : '') +
    (a.retry_after_seconds ? '; retry after ' + a.retry_after_seconds + 's' : '');
};

const freshness = { due: 'to be confirmed before its next use', stale: 'used only while identity is unavailable', expired: 'expired: refused' };

const explained = (x) => {
  const serviceOf = (s) => {
    const b = s.breaker && s.breaker.state !== 'closed' ? s.breaker : null, breaker = b ? 'breaker ' + b.state : '';
    return s.state + (b && s.state !== breaker ? ', ' + breaker : '') + (b && b.cause ? ' (' + b.cause + ')' : '');
  };
  const t = x.token, p = x.policy, team = t.team_id ? ['of team ', bdi(t.team_name), ' ' + t.team_id] : [];
  const checks = x.checks.map((c, i) => ({
    key: String(i), decides: c.name === x.answer.failed_check,
    cells: [el('th', { scope: 'row', class: 'still' }, (i + 1) + '. ' + c.name), el('td', { class: 'still ' + outcome[c.outcome][1] }, outcome[c.outcome][0]), el('td', { class: 'full' }, (c.detail || '') + (c.name === x.answer.failed_check ? ' \u2013 decisive' : ''))],
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
    line('Token', bdi(t.token_name), ' ', ...t.freshness === 'revoked' ? ['revoked, ', ...team] : t.cached ? [...team, (t.ai_plan ? ', with the AI plan' : ', without the AI plan') + '; scopes: ' + ((t.scopes || []).join(', ') || 'none') + ' (' + (freshness[t.freshness] || t.freshness) + ')' + (t.expires ? ', expires ' + moment(t.expires) : '')] : ['not cached by this gateway']),
    line('Policy', p.class + ', chosen by ' + p.chosen_by + ', set by ' + p.key + ' (' + p.origin + ')' + (p.owner ? ', owner: ' + p.owner : '') + (p.reason ? ', reason: ' + p.reason : '') +
      (p.expires ? ', until ' + moment(p.expires) : '') + (p.team_unknown ? '; the team is unknown and may have another policy' : '')),
    line('identity', serviceOf(x.identity)));
  if (x.service) parts.push(line(x.service.name, serviceOf(x.service)));
  return parts;
};

const failedExplanation = (f) => [el('p', { class: 'bad' }, f.error), ...Object.entries(f.details || {}).map(([name, text]) => el('p', {}, name + ' ' + text))];

// find fills in the id of the only token with a name, or returns a list to choose from.
const find = async (q) => {
  const response = await request('/admin/tokens?' + new URLSearchParams({ q }));
  if (!response.ok) return failedExplanation(await refusal(response));
  const { tokens, total } = await response.json();
  const choose = (t) => { $('token-id').value = t.token_id; };
  if (total === 1) return choose(tokens[0]);
  return [el('h3', {}, total ? total + ' cached tokens match' : 'This gateway has cached no such token'), ...tokens.map((t) => {
    const button = el('button', { class: 'small' }, t.token_id);
    button.addEventListener('click', () => { choose(t); $('explain').requestSubmit(); });
    return el('p', {}, button, ' ', bdi(t.token_name), ' of team ', bdi(t.team_name), ' ' + t.team_id);
  })];
};

$('explain').addEventListener('submit', async (event) => {
  event.preventDefault();
  const id = $('token-id').value.trim(), team = $('team-id').value.trim();
  let parts;
  if (/_live_/.test(id)) {
    $('token-id').value = '';
    parts = failedExplanation({ error: 'That is a token. It was not sent. Use its id, which is in the access log.' });
  } else {
    try {
      parts = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id) ? undefined : await find(id);
      if (!parts) {
        const query = new URLSearchParams({ method: $('method').value, path: $('path').value.trim(), token_id: $('token-id').value.trim() });
        if (team) query.set('team_id', team);
        const response = await request('/admin/explain?' + query);
        parts = response.ok ? explained(await response.json()) : failedExplanation(await refusal(response));
      }
    } catch { parts = failedExplanation({ error: 'No response from the gateway.' }); }
  }
  $('answer').replaceChildren(...parts);
  show($('answer'), true);
  set($('announce'), parts[0].textContent); // the rest follows in the page
});
