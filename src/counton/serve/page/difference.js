// What was added between two moments, with its interval.

import { band, ends, number, percent } from "./format.js";

/** Ends of windows that are offered to choose from. */
const OFFERED = 40;

export class Difference {
  /** `asked({group, from, to})` answers with a row of estimate, std, lower and upper. */
  constructor(page, asked) {
    this.page = page;
    this.asked = asked;
    this.form = page.querySelector("#difference-form");
    this.group = page.querySelector("#difference-group");
    this.from = page.querySelector("#from");
    this.to = page.querySelector("#to");
    this.answer = page.querySelector("#difference-answer");
    this.following = null;
    this.round = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.group.addEventListener("change", () => this.ask());
    for (const field of [this.from, this.to]) {
      field.addEventListener("change", () => {
        this.following = null;
        this.press();
        this.ask();
      });
    }
  }

  /** Another stream, or more windows of this one. */
  show({ clock, spans, groups, first, level, unit }) {
    Object.assign(this, { clock, spans, level, unit });
    const chosen = groups.includes(this.group.value) ? this.group.value : first;
    if ([...this.group.options].map((one) => one.value).join("\n") !== groups.join("\n")) {
      this.group.replaceChildren(...groups.map((name) => new Option(name, name)));
    }
    this.group.value = chosen;
    this.form.querySelector("#difference-group-label").hidden = groups.length < 2;
    this.moments();
    this.buttons();
    if (this.following !== null || !this.from.value) this.follow(this.following ?? this.offers[0]);
    else this.ask();
  }

  /** Forget the moments, as when another stream is opened. */
  reset() {
    this.following = null;
    this.round += 1; // an answer that is under way is of the stream before
    this.from.value = this.to.value = "";
    this.answer.replaceChildren();
  }

  /** Ends of the last windows, to choose from. */
  moments() {
    const texts = this.spans.slice(-OFFERED).map(({ end }) => this.clock.full(end)).reverse();
    const list = this.page.querySelector("#moments");
    if (list.dataset.key === texts.join()) return;
    list.dataset.key = texts.join();
    list.replaceChildren(...texts.map((text) => new Option(text, text)));
  }

  get offers() {
    return [10, 100, 1, 1000].filter((count) => count < this.spans.length).slice(0, 3);
  }

  buttons() {
    const offers = [...this.offers].sort((one, other) => one - other);
    const key = offers.join();
    const quick = this.page.querySelector("#quick");
    if (quick.dataset.key !== key) {
      quick.dataset.key = key;
      quick.replaceChildren(
        ...offers.map((count) => {
          const button = document.createElement("button");
          button.type = "button";
          button.dataset.count = String(count);
          button.textContent = count === 1 ? "Last window" : `Last ${count} windows`;
          button.addEventListener("click", () => this.follow(count));
          return button;
        }),
      );
    }
    this.press();
  }

  press() {
    for (const button of this.page.querySelectorAll("#quick button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.count) === this.following));
    }
  }

  /** The last windows, also when more come. */
  follow(count) {
    const { spans } = this;
    if (count === undefined || spans.length < 2) return;
    this.following = count;
    this.press();
    const last = spans.length - 1;
    this.set(spans[Math.max(0, last - count)].end, spans[last].end);
  }

  /** The ends of two windows, as marked in the chart. */
  mark(from, to) {
    this.following = null;
    this.press();
    this.set(from, to);
  }

  set(from, to) {
    this.from.value = this.clock.full(from);
    this.to.value = this.clock.full(to);
    this.ask();
  }

  async ask() {
    const [from, to] = [this.from, this.to].map((field) => this.clock?.read(field.value));
    const round = (this.round += 1);
    if (from === undefined) return;
    if (Number.isNaN(from) || Number.isNaN(to)) {
      this.say(`Write a moment as ${this.clock.full(this.spans.at(-1).end)}.`);
      return;
    }
    if (from >= to) {
      this.say(`The first moment must lie before the second.`);
      return;
    }
    const { level } = this;
    const group = this.group.value;
    try {
      const row = await this.asked({ group, from, to, level });
      if (round === this.round) this.tell(row, group, level);
    } catch (error) {
      if (round === this.round) this.say(error.message);
    }
  }

  say(words) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = words;
    this.answer.replaceChildren(note);
  }

  tell(row, asked, level) {
    const figure = document.createElement("p");
    figure.className = "figure";
    const give = document.createElement("span");
    give.className = "give";
    give.textContent = ` ${band(row)}`;
    figure.append(number(row), give);
    const words = document.createElement("p");
    words.className = "note";
    const [from, to] = [row.from, row.to].map((one) => this.clock.full(Date.parse(one)));
    const group = this.group.options.length > 1 ? `${asked}, ` : "";
    words.textContent = `${group}from ${from} to ${to}: ${ends(row)} with probability ${percent(level)}.`;
    this.answer.replaceChildren(figure, words);
  }
}
