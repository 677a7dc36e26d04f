// The parts of the page around the chart. Texts are set as text, never as markup.

import { band, count, everyWords, number } from "./format.js";
import { provisional, unitOf } from "./series.js";

/** So many groups stand in the list, the largest ones. */
const LISTED = 500;
/** From so many groups on the list scrolls. */
const LONG = 12;
const TABLE_ROWS = 100;

export function element(tag, options = {}, ...inside) {
  const made = document.createElement(tag);
  const { data, aria, ...plain } = options;
  Object.assign(made, plain);
  Object.entries(data ?? {}).forEach(([name, value]) => (made.dataset[name] = value));
  Object.entries(aria ?? {}).forEach(([name, value]) => made.setAttribute(`aria-${name}`, value));
  made.append(...inside.filter((one) => one !== null));
  return made;
}

/** An estimate with what it may be off by, smaller. */
export function figure(row, unit = "") {
  const give = element("span", { className: "give", textContent: [band(row), unit].filter(Boolean).join(" ") });
  return [document.createTextNode(number(row)), " ", give];
}

function fact(name, ...inside) {
  return element("div", {}, element("dt", { textContent: name }), element("dd", {}, ...inside));
}

/** Name, what is counted, and the newest numbers. */
export function showHead(page, { stream, series, clock, names, label, measure, lead, now }) {
  page.querySelector("#title").textContent = stream.name;
  const words = [lead, everyWords(stream.every), `times in ${stream.timezone}`];
  page.querySelector("#lead").textContent = words.filter(Boolean).join(" · ");
  const facts = [];
  const [first] = names;
  const row = first === undefined ? null : series.latest.get(first);
  if (row) {
    const large = fact(names.length > 1 ? `Largest${measure === null ? "" : ` ${measure}`}: ${label(first)}` : "So far", ...figure(row, unitOf(stream.units, row)));
    large.className = "large";
    facts.push(large);
    facts.push(fact("Counted until", clock.until(Date.parse(row.window_end))));
  }
  const steps = Math.max(stream.steps ?? 0, series.lastStep);
  const of = stream.horizon ? ` of ${count(stream.horizon)}` : "";
  facts.push(fact("Windows released", `${count(steps)}${of}`));
  if (stream.next_release) facts.push(fact("Next release", soon(Date.parse(stream.next_release), now, clock)));
  replaceFacts(page.querySelector("#facts"), facts);
}

/** Facts whose text stands stay as they are, so that only what is new lights up. */
function replaceFacts(list, facts) {
  const before = new Map([...list.children].map((one) => [one.firstChild.textContent, one]));
  const kept = facts.map((one) => {
    const name = one.firstChild.textContent;
    const old = before.get(name);
    if (old && old.textContent === one.textContent && old.className === one.className) return old;
    if (old && one.className === "large") one.lastChild.classList.add("fresh");
    return one;
  });
  list.replaceChildren(...kept);
}

function soon(moment, now, clock) {
  const seconds = Math.round((moment - now) / 1000);
  if (seconds <= 0) return "due now";
  if (seconds < 90) return `in ${seconds} s`;
  if (seconds < 5400) return `in ${Math.round(seconds / 60)} minutes`;
  return clock.full(moment);
}

/** What is protected, and how much of the budget is spent. */
export function showPromise(page, stream) {
  const { protected: unit, guarantee, protects, people, budget } = stream;
  const [scoped = guarantee, ...meaning] = stream.description ?? [];
  const told = [`${unit}: ${scoped}`, meaning[0]].filter(Boolean).map(sentence).join(" ");
  const say = (selector, words) => {
    const place = page.querySelector(selector);
    if (place.textContent !== words) place.textContent = words;
  };
  say("#protected", protects ?? "");
  say("#people", people ? sentence(people) : "");
  say("#guarantee", told);
  const lines = stream.besides_noise ?? [];
  page.querySelector("#besides").hidden = !lines.length;
  if (page.querySelector("#besides ul").textContent !== lines.map(sentence).join("")) {
    page.querySelector("#besides ul").replaceChildren(
      ...lines.map((line) => element("li", { textContent: sentence(line) })),
    );
  }
  page.querySelector("#budget").hidden = !budget;
  if (!budget) return;
  const { limit, left } = budget;
  const spent = budget.spent ?? (limit === null ? "no one sum" : "nothing yet");
  const words = page.querySelector("#budget-words");
  const meter = page.querySelector(".meter");
  const [used, most] = [spent, limit].map(epsilonOf);
  meter.hidden = !(most > 0 && used >= 0);
  if (limit === null) {
    const said = sentence(`spent so far, all series together: ${spent}`);
    words.textContent = `${said} No limit was set.`;
    return;
  }
  if (!meter.hidden) {
    page.querySelector("#budget-bar").style.transform = `scaleX(${Math.min(1, used / most)})`;
  }
  const rest = left === null ? "nothing" : left;
  if ([spent, limit, left ?? limit].every((one) => /^pure .*epsilon = \S+$/.test(one))) {
    const remains = left === null ? "nothing" : epsilonOf(left);
    words.textContent = `Epsilon: ${used} of ${most} spent, ${remains} left.`;
    return;
  }
  words.textContent = `Spent: ${spent}. Limit: ${limit}. Left: ${rest}.`;
}

function epsilonOf(words) {
  return Number(/epsilon = ([0-9.]+(?:e[+-]?\d+)?)/.exec(words ?? "")?.[1] ?? NaN);
}

function sentence(text) {
  const words = text.trim();
  const begun = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** The groups, largest first, to pick those that the chart shows. */
export function showGroups(page, { series, names, picked, most, toggled, label, bars }) {
  const card = page.querySelector("#groups-card");
  const list = page.querySelector("#groups");
  card.hidden = names.length < 2;
  if (card.hidden) return;
  const grouped = "group" in (series.latest.get(names[0]) ?? {});
  page.querySelector("#groups-title").textContent = grouped ? "Groups" : "Values";
  list.classList.toggle("plain", !bars);
  list.classList.toggle("long", names.length > LONG);
  page.querySelector("#groups-note").textContent = `${picked.size} of ${count(names.length)} shown`;
  const listed = names.slice(0, LISTED);
  const largest = Math.max(1e-12, ...names.slice(0, 1).map((name) => Math.abs(series.latest.get(name).estimate)));
  // The order stays while somebody is picking: rows must not move away under a finger.
  const busy = list.matches(":hover") || list.contains(document.activeElement);
  const before = new Map([...list.children].map((item) => [item.dataset.name, item]));
  const same = before.size === listed.length && listed.every((name) => before.has(name));
  const full = picked.size >= most;
  const items = listed.map((name) => {
    const item = before.get(name) ?? groupItem(name, label(name), toggled);
    const row = series.latest.get(name);
    const [box] = item.getElementsByTagName("input");
    box.checked = picked.has(name);
    box.disabled = full && !box.checked;
    item.firstChild.className = picked.has(name) ? `mark-${picked.get(name)}` : "";
    item.querySelector(".value").replaceChildren(...figure(row));
    const share = Math.max(0, Math.min(1, row.estimate / largest));
    item.querySelector("i").style.transform = `scaleX(${share.toFixed(4)})`;
    return item;
  });
  if (!(busy && same)) list.replaceChildren(...items);
  const more = page.querySelector("#groups-more");
  const rest = names.length - listed.length;
  more.textContent = full ? `${most} at a time: take one out to show another` : rest ? `and ${count(rest)} more` : "";
}

function groupItem(name, words, toggled) {
  const box = element("input", { type: "checkbox" });
  box.addEventListener("change", () => toggled(name, box.checked));
  const label = element(
    "label",
    {},
    box,
    element("span", { textContent: words }),
    element("span", { className: "value" }),
    element("span", { className: "length", ariaHidden: "true" }, element("i")),
  );
  return element("li", { data: { name } }, label);
}

/** Which line has which colour, with its newest number. */
export function showLegend(page, lines) {
  page.querySelector("#legend").hidden = lines.length < 2;
  page.querySelector("#legend").replaceChildren(
    ...lines.map(({ name, colour, rows }) => {
      const row = rows.findLast((one) => one !== null);
      return element(
        "li",
        {},
        element("span", { className: `swatch series-${colour}`, ariaHidden: "true" }),
        element("b", { textContent: name }),
        element("span", { className: "value", textContent: row ? `${number(row)} ${band(row)}` : "–" }),
      );
    }),
  );
}

/** A moment whose day and time may stand below each other, each whole. */
function moment(text) {
  const [day, ...time] = text.split(", ");
  const whole = (words) => element("span", { className: "whole", textContent: words });
  return time.length ? [whole(`${day},`), " ", whole(time.join(", "))] : [whole(day)];
}

/** The same numbers as text, newest first. */
export function showTable(page, { spans, lines, clock, stepped, unit }) {
  const whole = clock.daily && spans.every(({ end }) => clock.midnight(end));
  const when = stepped ? (whole ? "Window" : "Window from") : whole ? "Up to and with" : "Until";
  const named = ({ start, end }) =>
    stepped ? (whole ? clock.window(start, end) : clock.full(start)) : clock.end(end);
  const head = element("tr", {}, element("th", { scope: "col", textContent: when }));
  lines.forEach(({ name }) => head.append(element("th", { scope: "col", textContent: name })));
  const first = Math.max(0, spans.length - TABLE_ROWS);
  const body = [];
  for (let place = spans.length - 1; place >= first; place -= 1) {
    const row = element("tr", {}, element("th", { scope: "row" }, ...moment(named(spans[place]))));
    for (const { rows } of lines) {
      const more = provisional(rows[place]) ? "provisional" : "";
      row.append(element("td", {}, ...(rows[place] ? figure(rows[place], more) : ["–"])));
    }
    body.push(row);
  }
  page.querySelector("#table thead").replaceChildren(head);
  page.querySelector("#table tbody").replaceChildren(...body);
  const rest = first > 0 ? `The last ${TABLE_ROWS} of ${count(spans.length)} windows in the chart.` : "";
  page.querySelector("#table-note").textContent = [unit && `In ${unit}.`, rest].filter(Boolean).join(" ");
}
