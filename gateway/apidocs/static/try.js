// The form of each operation that calls it, and the change to another page without loading it, which keeps the token.
"use strict";

let token = ""; // in memory only: a reload loses it

const shownHeaders = ["RateLimit", "Retry-After", "Idempotent-Replayed", "Link", "Cursor-Status", "ETag", "WWW-Authenticate", "X-Request-Id"];

function offerCalls(boxes) {
  boxes.forEach(offerCall);
  openLinked();
}

addEventListener("hashchange", openLinked);

// openLinked opens the form in the fragment of the address.
function openLinked() {
  const box = document.getElementById(location.hash.slice(1));
  if (!box?.matches(".try")) return;
  box.open = true;
  box.scrollIntoView();
}

function offerCall(box) {
  const form = box.querySelector("form"), key = fieldsOf(form).find((field) => field.dataset.in === "header");
  const renew = () => { if (key) key.dataset.made = key.value = randomKey(); };
  box.hidden = false;
  box.querySelector("summary").addEventListener("click", (event) => {
    event.preventDefault();
    const before = box.getBoundingClientRect().top;
    box.open = !box.open;
    scrollBy(0, box.getBoundingClientRect().top - before); // an open form moves the column
  });
  box.addEventListener("toggle", () => { if (box.open) useToken(form); });
  form.addEventListener("input", ({ target }) => {
    if (target.matches(".token")) {
      token = target.value.trim();
    } else if (key && target !== key && key.value === key.dataset.made) {
      renew();
    }
    showCommand(form);
  });
  form.querySelector(".token").addEventListener("change", () => useToken(form));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (key?.value === "") renew();
    send(form);
  });
  renew();
  showCommand(form);
}

const fieldsOf = (form) => [...form.querySelectorAll("[data-in]")];

function randomKey() {
  const random = crypto.getRandomValues(new Uint8Array(16)); // randomUUID exists only on https
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// useToken fills in the token, and the first id of the team for a path without one; the others are suggested.
async function useToken(form) {
  form.querySelector(".token").value = token;
  const field = fieldsOf(form).find((candidate) => candidate.dataset.in === "path");
  if (!field || !token) return;
  const items = await itemsOf(form.dataset.path.split("/{")[0], token);
  field.list.replaceChildren(...items.map(({ id, name, title }) => new Option(name ?? title, id)));
  if (field.value || items.length === 0) return;
  field.value = items[0].id;
  showCommand(form);
}

const lists = new Map(); // the items of each list that could be read, by its path and the token

function itemsOf(path, bearer) {
  const key = path + " " + bearer;
  if (!lists.has(key)) lists.set(key, readItems(path, bearer).catch(() => (lists.delete(key), [])));
  return lists.get(key);
}

async function readItems(path, bearer) {
  const response = await fetch(path, { headers: { Authorization: "Bearer " + bearer }, credentials: "omit" });
  if (!response.ok) throw new Error(response.statusText);
  const body = await response.json();
  return body.items ?? body;
}

// requestOf returns the request that a form describes, without the token.
function requestOf(form) {
  let { path, method } = form.dataset;
  const query = [], headers = {}, body = form.querySelector(".body")?.value;
  for (const { value, dataset } of fieldsOf(form)) {
    if (value === "") continue;
    if (dataset.in === "path") path = path.replace(`{${dataset.name}}`, encodeURIComponent(value.trim()));
    else if (dataset.in === "query") query.push(dataset.name + "=" + encodeURIComponent(value));
    else headers[dataset.name] = value;
  }
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return { method, path: query.length > 0 ? path + "?" + query.join("&") : path, headers, body };
}

// showCommand shows the request in the form of the samples: with a variable in place of the token, so that it can be shared.
function showCommand(form) {
  const { method, path, headers, body } = requestOf(form);
  const quote = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const lines = [
    `curl --fail-with-body -sS${method === "GET" ? "" : " -X " + method} ${quote(form.dataset.base + path)}`,
    '-H "Authorization: Bearer $OPSCTL_TOKEN"', ...Object.entries(headers).map(([name, value]) => "-H " + quote(name + ": " + value)),
  ];
  if (body !== undefined) lines.push("--data-raw " + quote(body));
  form.querySelector(".curl code").textContent = lines.join(" \\\n  ");
}

async function send(form) {
  if (form.ariaBusy === "true") return;
  const { method, path, headers, body } = requestOf(form), status = form.querySelector("[role=status]"), begin = performance.now();
  if (token) headers.Authorization = "Bearer " + token;
  form.ariaBusy = "true";
  status.className = "";
  status.textContent = "Sending…";
  try {
    const response = await fetch(path, { method, headers, body, cache: "no-store", credentials: "omit" });
    const text = await response.text();
    status.className = response.ok ? "good" : "bad";
    status.textContent = `${response.status} ${response.statusText} in ${Math.round(performance.now() - begin)} ms`;
    showAnswer(form, response, text);
  } catch (error) {
    status.className = "bad";
    status.textContent = "No answer: " + error.message;
    form.querySelector(".result").hidden = true;
  } finally {
    form.ariaBusy = "false";
  }
}

function showAnswer(form, response, text) {
  const result = form.querySelector(".result"), list = element("dl");
  for (const name of shownHeaders.filter((header) => response.headers.has(header))) {
    const value = element("dd");
    value.append(element("code", response.headers.get(name)));
    list.append(element("dt", name), value);
  }
  const code = element("div"), caption = element("p", "Response body"), pre = element("pre");
  code.className = "code answer";
  caption.className = "caption";
  pre.tabIndex = 0;
  const parsed = parse(text);
  pre.append(element("code", parsed === undefined ? text : JSON.stringify(parsed, null, 2)));
  code.append(caption, pre);
  offerCopy(code);
  result.replaceChildren(...(response.ok ? [] : [explanation(form, parsed)]), list, code, ...nextPage(form, parsed));
  result.hidden = false;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// explanation explains an error, with what the operation says of its code and a link to the guide.
function explanation(form, problem) {
  const made = element("div"), code = problem?.code;
  made.className = "problem";
  made.append(element("p", problem?.error ?? "The answer is not from the API: a proxy on the way sent it."));
  if (!code) return made;
  const term = [...form.closest(".operation").querySelectorAll(".told dt")].find((candidate) => candidate.textContent === code);
  if (term) made.append(...[...term.nextElementSibling.children].map((part) => part.cloneNode(true)));
  const link = element("a", "What to do about " + code), more = element("p");
  link.href = "/docs/errors/#" + encodeURIComponent(code);
  more.append(link);
  made.append(more);
  return made;
}

// nextPage returns the button for the next page of a list, if there is one.
function nextPage(form, body) {
  const field = fieldsOf(form).find((candidate) => candidate.dataset.name === "cursor");
  if (!field || !body?.nextCursor) return [];
  const button = element("button", "Next page");
  button.className = "button plain";
  button.type = "button";
  button.addEventListener("click", () => {
    field.value = body.nextCursor;
    showCommand(form);
    send(form);
  });
  return [button];
}

const places = new Map(); // how far the page was scrolled, by the entry of the history; Chromium restores it for loaded pages only

// Another page replaces the content of this one. Browsers without the Navigation API load it.
globalThis.navigation?.addEventListener("navigate", (event) => {
  places.set(navigation.currentEntry.key, scrollY);
  const to = new URL(event.destination.url);
  if (!event.canIntercept || event.hashChange || event.downloadRequest !== null || event.navigationType === "reload") return;
  if (!to.pathname.startsWith("/docs/") || !to.pathname.endsWith("/")) return;
  const handler = async () => {
    await show(to.pathname, event.signal);
    const place = places.get(event.destination.key);
    if (place === undefined) event.scroll();
    else scrollTo(0, place);
  };
  event.intercept({ focusReset: "manual", scroll: "manual", handler });
});

async function show(path, signal) {
  let page;
  try {
    const response = await fetch(path, { signal });
    if (!response.ok || !response.headers.get("Content-Type")?.startsWith("text/html")) throw new Error(response.statusText);
    page = new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    if (!signal.aborted) location.reload(); // to show the explanation of the browser or of a proxy
    return;
  }
  const side = document.getElementById("nav"), main = page.querySelector("main");
  document.getElementById("search").value = "";
  document.getElementById("results").replaceChildren();
  document.title = page.title;
  document.body.className = page.body.className;
  document.querySelector("link[rel=alternate]").href = page.querySelector("link[rel=alternate]").getAttribute("href");
  document.querySelector("main").replaceWith(main);
  for (const link of side.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
  side.querySelector(`[href="${path}"]`).setAttribute("aria-current", "page");
  main.focus({ preventScroll: true });
  offerContent(side);
}
