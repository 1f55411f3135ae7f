(() => {
  'use strict';
  const $ = (id) => document.getElementById(id);
  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const clock = (at) => new Date(at).toLocaleTimeString('en-GB');
  const channels = { email: ['\u2709', 'Email'], webhook: ['\u21c4', 'Webhook'] };

  // ---- The list, newest first. It follows the events.

  let messages = [];

  // marks are what the reader should notice about a message: class and text.
  const marks = (m) => {
    const list = [];
    if (m.attempt > 1) list.push(['warn', 'repeat: arrival ' + m.attempt + ' of this id']);
    if (m.status >= 300) list.push(['bad', 'answered ' + m.status]);
    if (m.signature) list.push(m.signature.verified ? ['well', '\u2713 signature verified'] : ['bad', '\u2715 signature not verified']);
    if (m.receiver) list.push(['', m.receiver]);
    return list;
  };

  const row = (m) => {
    const [icon, channel] = channels[m.channel];
    return el('li', { 'data-number': m.number }, el('a', { href: '#' + m.number },
      el('span', { class: 'top' },
        el('span', { class: 'channel' }, el('span', { 'aria-hidden': 'true' }, icon + ' '), channel),
        el('span', {}, m.page || 'unknown page'),
        el('time', { datetime: m.receivedAt }, clock(m.receivedAt))),
      el('span', { class: 'subject' }, m.subject),
      el('span', {}, m.address),
      el('span', { class: 'marks' }, ...marks(m).map(([kind, text]) => el('span', { class: kind }, text)))));
  };

  const update = (news) => {
    const list = $('list');
    if (news.reset) { messages = []; list.replaceChildren(); }
    messages = [...news.messages, ...messages].filter((m) => news.oldest && m.number >= news.oldest);
    list.prepend(...news.messages.map(row));
    while (list.children.length > messages.length) list.lastChild.remove();
    $('count').textContent = '(' + messages.length + ')';
    document.title = (messages.length ? '(' + messages.length + ') ' : '') + 'Inbox';
    $('clear').disabled = !messages.length;
    $('empty').hidden = messages.length > 0;
    $('panes').hidden = !messages.length;
    if (!news.reset && news.messages.length) {
      const m = news.messages[0];
      $('announce').textContent = (news.messages.length > 1 ? news.messages.length + ' new messages, the last: ' : 'New: ') + m.subject + ' to ' + m.address;
    }
    if (news.reset) show(); else mark();
  };

  const chosen = () => Number(location.hash.slice(1)) || 0;
  const mark = () => {
    for (const item of $('list').children) {
      const link = item.firstChild;
      if (Number(item.dataset.number) === chosen()) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  };

  $('list').addEventListener('keydown', (event) => {
    const item = event.target.closest('li');
    const next = { ArrowDown: item && item.nextElementSibling, ArrowUp: item && item.previousElementSibling, Home: $('list').firstElementChild, End: $('list').lastElementChild }[event.key];
    if (!next) return;
    event.preventDefault();
    next.firstChild.focus();
  });
  $('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the fragment is the number of the shown message
    ($('list').querySelector('a') || $('list')).focus();
  });

  // ---- The shown message. The fragment of the URL has its number.

  let shown = null, tab = 'text';

  const facts = (node, list) => node.replaceChildren(...list.filter(([, value]) => value).flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));

  const show = async () => {
    const number = chosen();
    mark();
    shown = null;
    $('shown').hidden = true;
    $('panes').classList.toggle('open', number > 0);
    if (!number) { $('detail-title').textContent = 'No message selected'; return; }
    let message = null;
    try {
      const response = await fetch('/messages/' + number, { cache: 'no-store' });
      if (response.ok) message = await response.json();
    } catch { /* the state of the connection is shown */ }
    if (number !== chosen()) return;
    if (!message) { $('detail-title').textContent = 'This message is no longer kept'; return; }
    shown = message;
    render();
  };

  const render = () => {
    const m = shown;
    $('detail-title').textContent = m.subject;
    $('verdict').hidden = !m.signature;
    if (m.signature) {
      $('verdict').textContent = (m.signature.verified ? '\u2713 ' : '\u2715 ') + m.signature.detail;
      $('verdict').className = m.signature.verified ? 'well' : 'bad';
    }
    facts($('facts'), [
      ['Subscriber', m.address], ['Status page', m.page || 'unknown'], ['Message id', m.id || 'none'], ['Arrival', m.attempt + (m.attempt > 1 ? ' (a repeat: the receiver drops it by its id)' : '')],
      ['Received', new Date(m.receivedAt).toLocaleString('en-GB')], ['Timestamp', m.timestamp && m.timestamp + ' (' + new Date(m.timestamp * 1000).toLocaleString('en-GB') + ')'],
      ['Answer', m.status && String(m.status)], ['Receiver', m.receiver], ['Size', m.bytes.toLocaleString('en') + ' bytes'],
    ]);
    $('act').hidden = !m.unsubscribe;
    $('unsubscribe').disabled = false;
    $('unsubscribed').textContent = '';
    $('tab-text').textContent = m.channel === 'webhook' ? 'JSON' : 'Text';
    $('tab-html').hidden = !m.html;
    $('shown').hidden = false;
    choose(tab === 'html' && !m.html ? 'text' : tab);
  };

  const choose = (name) => {
    const m = shown, html = name === 'html' ? m.html : '';
    for (const button of $('tabs').children) {
      const selected = button.id === 'tab-' + name;
      button.setAttribute('aria-selected', String(selected));
      button.tabIndex = selected ? 0 : -1;
    }
    $('panel').setAttribute('aria-labelledby', 'tab-' + name);
    $('text').hidden = name !== 'text' && name !== 'raw';
    $('text').textContent = name === 'raw' ? m.raw : m.text;
    $('headers').hidden = name !== 'headers';
    facts($('headers'), m.headers.map((h) => [h.name, h.value]));
    $('html').hidden = !html;
    if ($('html').getAttribute('src') !== html) $('html').setAttribute('src', html || 'about:blank');
  };

  $('tabs').addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (button) choose(tab = button.id.slice(4));
  });
  $('tabs').addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...$('tabs').children].filter((button) => !button.hidden);
    const next = all[(all.indexOf(event.target) + step + all.length) % all.length];
    choose(tab = next.id.slice(4));
    next.focus();
  });

  $('unsubscribe').addEventListener('click', async () => {
    $('unsubscribe').disabled = true;
    let text = 'No response from the inbox.';
    try {
      const response = await fetch(shown.unsubscribe, { method: 'POST', body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) });
      text = response.ok ? 'Unsubscribed.' : 'The link answered ' + response.status + '.';
    } catch { /* reported as text */ }
    $('unsubscribed').textContent = text;
  });

  $('clear').addEventListener('click', async () => {
    history.replaceState(null, '', location.pathname);
    try { await fetch('/messages', { method: 'DELETE' }); } catch { /* the state of the connection is shown */ }
  });

  window.addEventListener('hashchange', async () => {
    const before = document.activeElement;
    await show();
    if (chosen() && matchMedia('(max-width: 760px)').matches) $('detail-title').focus();
    else if (!chosen() && before.closest('#detail')) ($('list').querySelector('a') || $('list')).focus();
  });

  // ---- Server-sent events. The browser connects again by itself; the first event has the whole list.

  const events = new EventSource('/events');
  events.onmessage = (event) => {
    $('link-mark').textContent = '\u25cf';
    $('link-text').textContent = 'live';
    update(JSON.parse(event.data));
  };
  events.onerror = () => {
    $('link-mark').textContent = '\u25cb';
    $('link-text').textContent = 'connection lost, trying again';
  };
})();
