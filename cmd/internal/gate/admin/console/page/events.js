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

// This is the last part, so all others are defined.
follow();
