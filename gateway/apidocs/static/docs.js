// What reading does not need: the theme, copying of code, and the search.
"use strict";

const root = document.documentElement;
const theme = stored("theme");
if (theme) root.dataset.theme = theme; // before the page is shown

document.addEventListener("DOMContentLoaded", () => {
  offerTheme(document.getElementById("theme"));
  offerSearch(document.getElementById("search"), document.getElementById("results"));
  const side = document.getElementById("nav");
  side.addEventListener("click", () => { if (side.matches(":popover-open")) side.hidePopover(); });
  offerContent(side);
});

// placeholder is the base URL in the pages of a gateway without public_url.
const placeholder = "https://api.example.com";

// showBase replaces the placeholder by the base URL of this page.
function showBase(main) {
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) text.data = text.data.replaceAll(placeholder, location.origin);
  for (const form of main.querySelectorAll("[data-base]")) form.dataset.base = form.dataset.base.replace(placeholder, location.origin);
}

// offerContent adds what the script offers to the content of the page.
function offerContent(side) {
  showBase(document.querySelector("main"));
  document.querySelectorAll("[data-copy]").forEach(offerCopy);
  keepLanguage([...document.querySelectorAll(".tabs input")]);
  const current = side.querySelector("[aria-current]");
  side.scrollTop = current.offsetTop - side.clientHeight / 3;
  followReading([...document.querySelectorAll(".operation")], side);
  offerCalls([...document.querySelectorAll(".try")]);
}

// stored returns a value of the local storage, null if there is none or the browser blocks the storage.
function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The choice holds for this page.
  }
}

function offerTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store("theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
  button.hidden = false;
}

function offerCopy(box) {
  if (!navigator.clipboard) return; // in a page without TLS that is not on this machine
  const button = element("button", "Copy");
  button.className = "copy";
  button.type = "button";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(box.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  box.append(button);
}

// keepLanguage shows all samples in the language that the reader chose last.
function keepLanguage(choices) {
  const show = (language) => choices.forEach((choice) => { choice.checked = choice.value === language; });
  const chosen = stored("language");
  if (chosen && choices.some((choice) => choice.value === chosen)) show(chosen);
  choices.forEach((choice) => choice.addEventListener("change", () => {
    const before = choice.getBoundingClientRect().top;
    show(choice.value);
    scrollBy(0, choice.getBoundingClientRect().top - before); // the samples above have another length now
    store("language", choice.value);
  }));
}

let reading; // the observer of the sections

// followReading marks the operation that is on the screen in the navigation.
function followReading(sections, side) {
  const visible = new Set();
  reading?.disconnect();
  reading = new IntersectionObserver((changes) => {
    for (const change of changes) visible[change.isIntersecting ? "add" : "delete"](change.target);
    const current = sections.find((section) => visible.has(section));
    for (const link of side.querySelectorAll("[aria-current=true]")) link.removeAttribute("aria-current");
    if (current) side.querySelector(`[href$="#${current.getAttribute("aria-labelledby")}"]`).setAttribute("aria-current", "true");
  }, { rootMargin: "-25% 0px -60% 0px" });
  sections.forEach((section) => reading.observe(section));
}

function offerSearch(input, list) {
  let entries, shown = [], selected = -1;
  const load = () => entries ??= fetch("/docs/search.json").then((response) => response.json());
  const close = () => {
    list.hidden = true;
    selected = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const select = (i) => {
    shown[selected]?.setAttribute("aria-selected", "false");
    selected = (i + shown.length) % shown.length;
    shown[selected].setAttribute("aria-selected", "true");
    shown[selected].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", shown[selected].id);
  };
  const search = async () => {
    const query = input.value;
    const found = find(await load(), query);
    if (query !== input.value) return; // another key was pressed meanwhile
    shown = found.map(result);
    list.replaceChildren(...shown);
    if (query.trim() === "") return close();
    if (shown.length === 0) list.append(element("p", "Nothing found"));
    list.hidden = false;
    selected = -1;
    input.setAttribute("aria-expanded", "true");
    if (shown.length > 0) select(0);
  };
  input.addEventListener("focus", load);
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      close();
    } else if (list.hidden || shown.length === 0) {
      return;
    } else if (event.key === "ArrowDown") {
      select(selected + 1);
    } else if (event.key === "ArrowUp") {
      select(selected - 1);
    } else if (event.key === "Enter") {
      shown[selected].click();
    } else {
      return;
    }
    event.preventDefault();
  });
  list.addEventListener("click", close);
  input.addEventListener("blur", (event) => { if (!list.contains(event.relatedTarget)) close(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  input.closest(".search").hidden = false;
}

// find returns the best entries that have every word of the query.
function find(entries, query) {
  const given = wordsOf(query), telling = given.filter((word) => !filler.has(word));
  const words = telling.length > 0 ? telling : given, whole = words.map(stem).join(" ");
  if (words.length === 0) return [];
  const points = (entry) => {
    const title = wordsOf(entry.t), other = wordsOf(entry.k), text = (entry.p + " " + (entry.x ?? "")).toLowerCase();
    let sum = title.map(stem).join(" ") === whole ? 12 : 0;
    for (const word of words) {
      const begin = stem(word), begins = (candidate) => candidate.startsWith(begin);
      if (title.includes(word)) sum += 10;
      else if (title.some(begins) || other.some(begins)) sum += 8;
      else if (entry.t.toLowerCase().includes(word)) sum += 4;
      else if (new RegExp("\\b" + begin).test(text)) sum += 2;
      else if (text.includes(word)) sum += 1;
      else return 0;
    }
    return sum * entry.r;
  };
  return entries.map((entry) => [points(entry), entry]).filter(([sum]) => sum > 0)
    .sort(([a], [b]) => b - a).slice(0, 12).map(([, entry]) => entry);
}

const filler = new Set(["a", "an", "the", "to", "of", "in", "for", "with", "how", "do", "i", "can", "is", "my"]);

const wordsOf = (text = "") => text.toLowerCase().match(/[a-z0-9]+/g) ?? [];

// stem returns the beginning that forms of an English word share: "retr" of retry, retries and retrying.
const stem = (word) => word.length > 4 ? word.replace(/(ies|ing|es|ed|s|y|e)$/, "") : word;

function result(entry, i) {
  const link = element("a");
  link.href = entry.u;
  link.id = "result-" + i;
  link.role = "option";
  link.tabIndex = -1;
  link.setAttribute("aria-selected", "false");
  link.append(element("b", entry.t), element("small", entry.p));
  return link;
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
