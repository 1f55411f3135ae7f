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
  poll();
});

// ---- The state, which is read once a second.

const EVERY = 1000, TIMEOUT = 6000; // ms

let latest = null, plotted = '', paused = false, reading = null, timer = 0, lost = 0;

const setLink = (text, mark) => { set($('link-text'), text); set($('link-mark'), mark); };

const showState = (s) => {
  latest = s;
  lost = 0;
  show($('all'), true);
  show($('pause'), true);
  $('all').classList.remove('stale');
  show($('as-of'), false);
  setLink('live \u00b7 updated ' + clock(s.at), '\u25cf');
  renderState(s);
  if (s.traffic.end === plotted) return;
  plotted = s.traffic.end;
  renderTraffic(s.traffic);
};

const showLost = (why) => {
  lost = lost || Date.now();
  setLink('connection lost', '\u25cb');
  $('all').classList.add('stale');
  showVerdict('unknown', 'Connection lost: ' + why, 'Lost ' + duration((Date.now() - lost) / 1000) + ' ago; trying again every second', [], 'lost ' + why);
  set($('as-of'), latest ? 'The data below is from ' + clock(latest.at) + (latest.draining ? ', when the gateway was draining' : '') + '.' : '');
  show($('as-of'), !!latest);
};

const read = async (signal) => {
  try {
    const response = await request('/admin/state', signal);
    return response.ok ? { state: await response.json() } : { status: response.status, ...await refusal(response) };
  } catch { return { error: 'no response from the gateway' }; }
};

// poll reads the state, and again after a second, until the gateway requires a token or the page is paused.
const poll = async () => {
  clearTimeout(timer);
  if (reading) reading.abort();
  const mine = reading = new AbortController(), limit = setTimeout(() => mine.abort(), TIMEOUT);
  const { state, status, error } = await read(mine.signal);
  clearTimeout(limit);
  if (mine !== reading || paused) return;
  if (status === 401) return askForToken();
  if (state) showState(state); else showLost(error);
  timer = setTimeout(poll, EVERY);
};

$('pause').addEventListener('click', () => {
  paused = !paused;
  attr($('pause'), 'aria-pressed', String(paused));
  set($('pause'), paused ? 'Resume' : 'Pause');
  if (paused) setLink('paused' + (latest ? ' at ' + clock(latest.at) : ''), '\u25ae\u25ae');
  else poll();
});

// This is the last part, so all others are defined.
poll();
