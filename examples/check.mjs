// Known answers of counton, computed in another language: node examples/check.mjs tests/vectors/*.json
//
// One file without packages: WebCrypto for AES, HKDF and SHA-256, BigInt for all numbers that have to
// be exact. It keeps the order of docs/guarantees/specification.md, which says the same in words.

import { readFileSync } from "node:fs";

const { subtle } = globalThis.crypto;
const utf8 = (text) => new TextEncoder().encode(text);
const hex = (bytes) => Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const sum = (some) => some.reduce((a, b) => a + b, 0n);
const range = (from, to) => Array.from({ length: Math.max(to - from, 0) }, (_, at) => from + at);
const bitLength = (value) => (value > 0n ? value.toString(2).length : 0);

// ------------------------------------------------------------------------------- exact numbers

const floorDiv = (a, b) => (b < 0n ? floorDiv(-a, -b) : a >= 0n ? a / b : -((-a + b - 1n) / b));
const nearest = (top, bottom) => floorDiv(2n * top + bottom, 2n * bottom);
const gcd = (a, b) => (b ? gcd(b, a % b) : a < 0n ? -a : a);

class Fraction {
  constructor(top, bottom = 1n) {
    const by = gcd(top, bottom) * (bottom < 0n ? -1n : 1n);
    [this.top, this.bottom] = [top / by, bottom / by];
  }
  static of(text) {
    const [top, bottom = "1"] = String(text).split("/");
    const [digits, power = "0"] = top.toLowerCase().split("e");
    const [whole, part = ""] = digits.split(".");
    const ten = BigInt(power) - BigInt(part.length);
    const value = BigInt(whole + part);
    return ten >= 0n
      ? new Fraction(value * 10n ** ten, BigInt(bottom))
      : new Fraction(value, 10n ** -ten * BigInt(bottom));
  }
  plus(b) { return new Fraction(this.top * b.bottom + b.top * this.bottom, this.bottom * b.bottom); }
  minus(b) { return new Fraction(this.top * b.bottom - b.top * this.bottom, this.bottom * b.bottom); }
  times(b) { return new Fraction(this.top * b.top, this.bottom * b.bottom); }
  over(b) { return new Fraction(this.top * b.bottom, this.bottom * b.top); }
  below(b) { return this.top * b.bottom < b.top * this.bottom; }
  toString() { return this.bottom === 1n ? `${this.top}` : `${this.top}/${this.bottom}`; }
}
const fraction = (top, bottom = 1) => new Fraction(BigInt(top), BigInt(bottom));
const ONE = fraction(1);

// Real numbers are integers in units of 2^-640; whatever hangs on the last half of them is refused.
const PRECISION = 640n;
const UNIT = 1n << PRECISION;
const real = (value) => (value.top << PRECISION) / value.bottom;
const multiply = (a, b) => (a * b) >> PRECISION;

function exponential(value) { // e^-value, for a fraction of at least 0
  let halvings = 24n;
  while (value.top > value.bottom << (halvings - 24n)) halvings += 1n;
  const x = real(new Fraction(value.top, value.bottom << halvings));
  let [term, total] = [UNIT, UNIT];
  for (let n = 1n; term; n += 1n) {
    term = multiply(term, x) / n;
    total += n % 2n ? -term : term;
  }
  for (; halvings; halvings -= 1n) total = multiply(total, total);
  return total;
}

function root(value) { // the integer part of a square root
  if (value < 2n) return value;
  let found = 1n << BigInt((bitLength(value) + 1) >> 1);
  for (;;) {
    const next = (found + value / found) >> 1n;
    if (next >= found) return found;
    found = next;
  }
}

const SHIFT = ((UNIT / 2n) + (root(2n * UNIT * UNIT) - UNIT) / 2n ** 20n);
function roundTo(value, places) { // floor(x 2^places + 1/2 + (sqrt 2 - 1) / 2^20)
  const moved = (value << BigInt(places)) + SHIFT;
  const guard = 1n << (PRECISION / 2n);
  if ((moved - guard) >> PRECISION !== (moved + guard) >> PRECISION) throw Error("a tie");
  return moved >> PRECISION;
}

// ------------------------------------------------------------------------------------- 1. key

async function subkey(secret, ...context) {
  const parts = ["counton/noise/1", ...context].map(utf8);
  const info = [];
  for (const part of parts) {
    info.push(...new Uint8Array(new BigUint64Array([BigInt(part.length)]).buffer), ...part);
  }
  const key = await subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
  const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: Uint8Array.from(info) };
  return new Uint8Array(await subtle.deriveBits(how, key, 256));
}

function lawOf(told) { // the width in integers of the noise
  const unit = Fraction.of(told.grid ?? "1");
  return told.law === "discrete Laplace"
    ? ["laplace", Fraction.of(told.scale).over(unit)]
    : ["gaussian", Fraction.of(told.sigma_squared).over(unit.times(unit))];
}

const ARRAYS = new Set(["name", "amplitudes", "matrix", "formula", "node_weights", "series"]);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const withoutArrays = (value) => !isObject(value) ? value : Object.fromEntries(
  Object.entries(value).filter(([name]) => !ARRAYS.has(name)).map(([k, v]) => [k, withoutArrays(v)]),
);

function canonical(value) { // keys in order, no spaces, ASCII
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) {
    return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (one) =>
      one === "\u007f" ? one : `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  }
  const names = Object.keys(value).sort((a, b) => (a < b ? -1 : 1));
  return `{${names.map((name) => `${canonical(name)}:${canonical(value[name])}`).join(",")}}`;
}

function address(terms) {
  const [family, width] = lawOf(terms.law);
  const laplace = family === "laplace";
  const { unit, ...contribution } = terms.contribution;
  const bound = {
    contribution,
    law: {
      law: laplace ? "discrete Laplace" : "discrete Gaussian",
      [laplace ? "scale" : "sigma_squared"]: `${width}`,
    },
    stream: terms.name,
    strategy: withoutArrays(terms.strategy),
  };
  for (const name of ["format", "guarantee", "shape", "counters", "statistic"]) {
    if (name in terms) bound[name] = terms[name];
  }
  return canonical(bound);
}

// ------------------------------------------------------------------------------------ 2. bits

class Bits {
  static async under(secret) {
    const made = new Bits();
    made.key = await subtle.importKey("raw", secret, "AES-CBC", false, ["encrypt"]);
    return made;
  }
  async part([level, row], [purpose, attempt, lane], block, first, size) {
    const plain = new DataView(new ArrayBuffer(16));
    plain.setBigUint64(0, BigInt(block), true);
    plain.setUint32(8, row, true);
    [lane, attempt, level, purpose].forEach((byte, at) => plain.setUint8(12 + at, byte));
    // One block of CBC after zeros is one block by itself; a block of padding follows it.
    const how = { name: "AES-CBC", iv: new Uint8Array(16) };
    const bytes = new Uint8Array(await subtle.encrypt(how, this.key, plain.buffer));
    return sum(range(0, size).map((at) => BigInt(bytes[first + at]) << BigInt(8 * at)));
  }
  word(purpose, where, size) {
    const each = 16 / size;
    const [block, within] = [Math.floor(where[2] / each), where[2] % each];
    return this.part(where, [purpose, 0, 0], block, within * size, size);
  }
  async lane(purpose, where, attempt, lane) {
    const both = await this.part(where, [purpose, attempt, lane], where[2], 0, 16);
    return [both & ((1n << 64n) - 1n), both >> 64n];
  }
  async uniform(purpose, where, attempt, sixteen) {
    const [first, second] = await this.lane(purpose, where, attempt, 1);
    return (sixteen << 128n) | (first << 64n) | second; // in units of 2^-144
  }
}

// ----------------------------------------------------------------------------------- 3. noise

const [MAIN, ACCEPT, OFFSET, RETRY, DIGIT] = [0, 1, 2, 3, 16];

class Inverse {
  constructor(least, weights) {
    this.least = least;
    let total = 0n;
    this.sums = weights.map((one) => (total += one));
    this.total = total;
  }
  at(uniform) { // how many sums are at most U
    let [low, high] = [0, this.sums.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.sums[middle] << 144n <= uniform * this.total) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  find(uniform) {
    const found = this.at(uniform);
    if (found !== this.at(uniform + 1n)) throw Error("144 bits do not decide a draw");
    return this.least + BigInt(found);
  }
}

const nearestZero = (block, size) => (block >= 0n ? block * size : (block + 1n) * size - 1n);

function blocks(size, weight) {
  const sides = [[-1n, -1n], [0n, 1n]].map(([block, step]) => {
    const found = [];
    for (;;) {
      const one = weight(nearestZero(block, size));
      if (one <= UNIT >> 180n) return found;
      found.push(one);
      block += step;
    }
  });
  return new Inverse(-BigInt(sides[0].length), [...sides[0].reverse(), ...sides[1]]);
}

class Laplace {
  constructor(scale) {
    let bits = 0n;
    while (fraction(24n << bits).below(scale)) bits += 1n;
    const weight = (value) => exponential(fraction(value < 0n ? -value : value).over(scale));
    this.blocks = blocks(1n << bits, weight);
    this.digits = [];
    while (bits) {
      const width = bits < 8n ? bits : 8n;
      bits -= width;
      const some = range(0, 2 ** Number(width)).map((j) => weight(BigInt(j) << bits));
      this.digits.push([width, new Inverse(0n, some)]);
    }
  }
  async draw(bits, where) {
    const main = await bits.word(MAIN, where, 2);
    let value = this.blocks.find(await bits.uniform(MAIN, where, 0, main));
    for (const [number, [width, law]] of this.digits.entries()) {
      const sixteen = await bits.word(DIGIT + number, where, 2);
      const digit = law.find(await bits.uniform(DIGIT + number, where, 0, sixteen));
      value = (value << width) | (value >= 0n ? digit : (1n << width) - 1n - digit);
    }
    return value;
  }
}

class Gaussian {
  constructor(variance) {
    [this.variance, this.bits] = [variance, 0n];
    const wide = fraction(128 ** 2).below(variance);
    while (wide && !variance.below(fraction(64n ** 2n * 4n ** (this.bits + 1n)))) this.bits += 1n;
    this.blocks = blocks(1n << this.bits, (value) => this.weight(value ** 2n));
  }
  weight(square) { // e^-(square / 2 variance)
    return exponential(fraction(square).over(this.variance.times(fraction(2))));
  }
  async draw(bits, where) {
    let [main, size] = [await bits.word(MAIN, where, 2), 1n << this.bits];
    if (size === 1n) return this.blocks.find(await bits.uniform(MAIN, where, 0, main));
    let accept = await bits.word(ACCEPT, where, 2);
    let offset = await bits.word(OFFSET, where, this.bits <= 16n ? 2 : 8);
    for (let attempt = 0; attempt < 256; attempt += 1) {
      if (attempt) {
        const [first, second] = await bits.lane(RETRY, where, attempt, 0);
        [accept, main, offset] = [first >> 48n, (first >> 32n) & 0xffffn, second];
      }
      const block = this.blocks.find(await bits.uniform(MAIN, where, attempt, main));
      const value = block * size + (offset % size);
      const chance = this.weight(value ** 2n - nearestZero(block, size) ** 2n);
      const test = new Inverse(0n, [chance, UNIT - chance]);
      if (test.find(await bits.uniform(ACCEPT, where, attempt, accept)) === 0n) return value;
    }
    throw Error("a draw was rejected 256 times");
  }
}

// ------------------------------------------------------------------------------ 4. strategies
// A strategy has its places, factors of levels, and noise(z, last) of the first releases. Nodes are
// numbers, what is computed with them BigInt.

const part = (value, share) => nearest(value * nearest(share.top << 40n, share.bottom), 1n << 40n);
const cached = (compute) => {
  const known = new Map();
  return (...key) => {
    const name = key.join();
    if (!known.has(name)) known.set(name, compute(...key));
    return known.get(name);
  };
};

class Strategy {
  places = 0n;
  versions = 1;
  factor() { return ONE; }
  noise(z, last) { return range(1, last + 1).map((step) => this.at(z, step)); }
}

class KAry extends Strategy {
  constructor({ horizon, arity, subtraction = true }) {
    super();
    [this.base, this.below] = [arity, subtraction ? (arity - 1) >> 1 : 0];
    for (let [most, levels] = [0, 0]; ; levels += 1) {
      if (most >= horizon) { this.levels = levels; break; }
      most = most * arity + arity - 1 - this.below;
    }
  }
  at(z, step) {
    let [total, end] = [0n, step];
    for (const level of range(0, this.levels)) {
      const parent = Math.floor((end + this.below) / this.base);
      const middle = parent * this.base;
      total += sum(range(middle + 1, end + 1).map((p) => z(level, p)));
      total -= sum(range(end + 1, middle + 1).map((p) => z(level, p)));
      end = parent;
    }
    return total;
  }
}

class Binary extends KAry {
  constructor({ horizon }) { super({ horizon, arity: 2, subtraction: false }); }
  at(z, step) { return super.at((level, p) => z(level, p >> 1), step); }
}

class SmoothBinary extends Strategy {
  constructor({ horizon, height, zeros }) {
    super();
    this.bits = range(0, height);
    this.leaves = [];
    for (let leaf = 0; leaf < 2 ** height && this.leaves.length <= horizon; leaf += 1) {
      const ones = this.bits.filter((bit) => (leaf >> bit) & 1).length;
      if (ones === height - zeros) this.leaves.push(leaf);
    }
    this.read = this.bits.map((bit) => [...new Set(
      this.leaves.filter((leaf) => (leaf >> bit) & 1).map((leaf) => leaf >> (bit + 1)),
    )]);
  }
  at(z, step) {
    const leaf = this.leaves[step];
    const ones = this.bits.filter((bit) => (leaf >> bit) & 1);
    return sum(ones.map((bit) => z(bit, this.read[bit].filter((n) => n < leaf >> (bit + 1)).length)));
  }
}

class Independent extends Strategy {
  at(z, step) { return z(0, step); }
}

class Expiring extends Strategy {
  constructor({ growth = "1", delay = 0, levels = null }) {
    super();
    [this.power, this.delay, this.levels] = [ONE.minus(Fraction.of(growth)), delay, levels ?? 63];
  }
  factor(level) {
    const [p, q] = [this.power.top, this.power.bottom];
    const base = BigInt(level + 1);
    const raised = p >= 0n ? fraction(base ** p) : fraction(1, base ** -p);
    const fits = (m, places) => { // whether m / 2^places, to the q, is at least that
      const value = places >= 0n ? fraction(m, 1n << places) : fraction(m << -places);
      return !new Fraction(value.top ** q, value.bottom ** q).below(raised);
    };
    const least = (places) => { // the least m that fits
      let [low, high] = [0n, 1n];
      while (!fits(high, places)) high *= 2n;
      while (high - low > 1n) {
        const middle = (low + high) >> 1n;
        if (fits(middle, places)) high = middle;
        else low = middle;
      }
      return high;
    };
    const whole = least(0n); // a root that is whole, of the base or of its inverse
    for (let r = 1n; r <= base; r += 1n) {
      if (r ** q === base) return p >= 0n ? fraction(r ** p) : fraction(1, r ** -p);
    }
    let places = 40n - BigInt(bitLength(whole));
    while (bitLength(least(places) - 1n) < 40) places += 1n;
    while (bitLength(least(places) - 1n) > 40) places -= 1n;
    return places >= 0n ? fraction(least(places), 1n << places) : fraction(least(places) << -places);
  }
  at(z, step) {
    const place = Math.max(step - this.delay, 0);
    const levels = Math.min(bitLength(BigInt(place)), this.levels);
    return sum(range(0, levels).map((level) => z(level, Math.floor(place / 2 ** level))));
  }
}

class HonakerOnline extends Strategy {
  places = 16n;
  noise(z, last) {
    const estimate = cached((level, node) => {
      const own = z(level, node) << 16n;
      if (!level) return own;
      const children = estimate(level - 1, 2 * node) + estimate(level - 1, 2 * node + 1);
      return own + part(children - own, ONE.minus(fraction(2 ** level, 2 ** (level + 1) - 1)));
    });
    return range(1, last + 1).map((step) => sum(
      range(0, 32).filter((l) => (step >> l) & 1).map((l) => estimate(l, (step >> l) - 1)),
    ));
  }
}

class LookAhead extends Strategy {
  places = 16n;
  constructor({ horizon, radices = [], weights = [1], own = null }) {
    super();
    this.radices = radices;
    this.weights = weights.map(BigInt);
    [this.own, this.top, this.widths] = [own, radices.length, [1]];
    for (const radix of radices) this.widths.push(this.widths.at(-1) * radix);
    this.counts = this.widths.map((width) => Math.ceil(horizon / width));
    this.depths = range(0, this.top + 1).map((level) => {
      if (!level || own !== null) return level ? 1 : 0;
      const leaves = (depth) => radices.slice(level - depth, level).reduce((a, b) => a * b, 1);
      return Math.max(1, ...range(2, level + 1).filter((depth) => leaves(depth) <= 400));
    });
  }
  final(z) {
    const children = (level, node) => {
      const radix = this.radices[level - 1];
      return range(node * radix, Math.min((node + 1) * radix, this.counts[level - 1]));
    };
    const estimate = cached((level, node, depth) => { // of a node, and its variance
      const [weight, drawn] = [this.weights[level], z(level, node) << 16n];
      if (!depth) return [nearest(drawn, weight), fraction(1, weight ** 2n)];
      const [said, variance] = ask(level, node, depth);
      const square = variance.times(fraction(weight ** 2n));
      const own = this.own ?? square.over(square.plus(ONE));
      const share = own.over(fraction(weight));
      const rest = ONE.minus(own);
      return [
        said + part(drawn - weight * said, share),
        share.times(share).plus(rest.times(rest).times(variance)),
      ];
    });
    const ask = cached((level, node, depth) => { // what its children say, and the variance of that
      const family = children(level, node);
      const below = family.map((one) => estimate(level - 1, one, depth - 1));
      const variance = below.map((one) => one[1]).reduce((a, b) => a.plus(b), fraction(0));
      const drawn = depth === 1 ? sum(family.map((one) => z(level - 1, one))) : 0n;
      return depth === 1
        ? [nearest(drawn << 16n, this.weights[level - 1]), variance]
        : [sum(below.map((one) => one[0])), variance];
    });
    const final = cached((level, node) => {
      const [value, variance] = estimate(level, node, this.depths[level]);
      if (level === this.top) return value;
      const parent = Math.floor(node / this.radices[level]);
      const [said, spread] = ask(level + 1, parent, this.depths[level] + 1);
      return value + part(final(level + 1, parent) - said, variance.over(spread));
    });
    return final;
  }
  total(final, step) {
    let [found, node] = [final(0, step - 1), 0];
    for (const level of range(0, this.top + 1).reverse()) {
      const end = Math.floor((step - 1) / this.widths[level]);
      found += sum(range(node, end).map((one) => final(level, one)));
      node = level ? end * this.radices[level - 1] : end;
    }
    return found;
  }
  noise(z, last) {
    const final = this.final(z);
    return range(1, last + 1).map((step) => this.total(final, step));
  }
}

class Epochs extends Strategy {
  places = 16n;
  constructor({ radix = 16 }) { super(); this.radix = radix; }
  factor(level) {
    let j = 2;
    while (((j - 1) * (j + 2)) / 2 <= level) j += 1;
    return fraction(j, 2);
  }
  noise(z, last) {
    const [k, found] = [this.radix, []];
    const own = fraction(nearest(BigInt(k - 1) << 40n, BigInt(k)), 1n << 40n);
    for (let [epoch, past] = [0, 0n]; found.length < last; epoch += 1) {
      const [radices, before] = [[...Array(epoch).fill(k), epoch ? k - 1 : k], epoch ? k ** epoch : 0];
      const size = radices.reduce((a, b) => a * b, 1);
      const tree = new LookAhead({ horizon: size, radices, weights: Array(epoch + 2).fill(1), own });
      const lowest = (epoch * (epoch + 3)) / 2;
      const final = tree.final((level, node) => z(lowest + level, node));
      const steps = range(1, Math.min(last - before, size) + 1);
      found.push(...steps.map((step) => past + tree.total(final, step)));
      if (found.length < last) past += final(tree.top, 0);
    }
    return found;
  }
}

class GrowingCascade extends Strategy {
  constructor({ fraction_bits = 10 }) { super(); this.places = BigInt(fraction_bits); }
  at(z, step) {
    const [first, weight, cell] = [978122n, 564719n, step - 1];
    const came = bitLength(BigInt(cell));
    let block = nearest(z(128, 0) << this.places, first);
    let total = block;
    for (const number of range(1, came + 1)) {
      block = nearest((z(128 + number, 0) << this.places) - weight * total, 2n * weight);
      total += block;
    }
    for (const height of range(1, came).reverse()) {
      const drawn = z(height, cell >> height) << this.places;
      const left = nearest(drawn + weight * block, 2n * weight);
      block = (cell >> (height - 1)) & 1 ? block - left : left;
    }
    return block;
  }
}

class Octave extends Strategy {
  static async of(told) {
    const made = new Octave();
    const { grid_bits: fine = 16, whole = false, node_weights: text = null } = told;
    made.places = whole ? 0n : 10n;
    [made.fine, made.unit] = [BigInt(fine), 2n ** (BigInt(fine >> 1) - 2n)];
    const bits = (value) => bitLength(BigInt(value));
    let [horizon, upper] = [told.horizon, Math.max(bits(told.horizon) - 8, 0)];
    if (upper >= 2) {
      horizon = Math.ceil(horizon / (8 * 2 ** upper)) * 8 * 2 ** upper;
      upper = bits(horizon) - 8;
    }
    made.nodes = [[1, horizon]];
    for (const _ of range(0, bits(horizon))) {
      const [first, last] = made.nodes.at(-1);
      made.nodes.push([(first >> 1) - (first % 2 ? 0 : 1), (last >> 1) + 1]);
    }
    const places = range(upper, made.nodes.length).flatMap((level) =>
      range(made.nodes[level][0], made.nodes[level][1] + 1).map((node) => `${level},${node}`));
    const weights = text ? await integers(text, places.length) : places.map(() => made.unit);
    made.weights = new Map(places.map((place, at) => [place, weights[at]]));
    return made;
  }
  noise(z, last) {
    const number = cached((level, node) => {
      const weight = this.weights.get(`${level},${node}`) ?? this.unit;
      const [half, above] = [node >> 1, this.nodes[level + 1] ?? [0, -1]];
      const reads = node % 2 ? [[half, 8n], [half + 1, 8n]] : [[half - 1, 3n], [half, 10n], [half + 1, 3n]];
      const there = reads.filter(([j]) => j >= above[0] && j <= above[1]);
      const carried = sum(there.map(([j, share]) => share * number(level + 1, j)));
      return nearest(carried * weight + 16n * z(level, node + 1), 16n * weight);
    });
    const by = 1n << (this.fine - this.places);
    return range(1, last + 1).map((step) => nearest(number(0, step), by));
  }
}

class Root extends Strategy {
  places = 10n;
  series(last) {
    const found = [];
    for (let [k, binomial] = [0n, 1n]; k < BigInt(last); k += 1n) {
      found.push(nearest(binomial << this.bits, 4n ** k));
      binomial = (binomial * 2n * (2n * k + 1n)) / (k + 1n);
    }
    return found;
  }
  weights(last) { return Array(last).fill(1n); }
  node(step) { return [0, step]; }
  noise(z, last) {
    const [f, weights, divided] = [this.series(last), this.weights(last), []];
    let total = 0n;
    return range(1, last + 1).map((step) => {
      const known = sum(range(1, step).map((k) => f[k] * divided[step - k]));
      divided[step] = ((z(...this.node(step)) << PRECISION) - known) / f[0];
      total += divided[step] / weights[step - 1];
      return roundTo(total, 10);
    });
  }
}

class SqrtToeplitz extends Root {
  constructor({ horizon }) { super(); this.bits = horizon <= 2 ** 19 ? 18n : 20n; }
}

class NormalisedSqrt extends Root {
  constructor({ horizon, weight_bits: more = 16 }) {
    super();
    [this.horizon, this.bits, this.more] = [horizon, horizon <= 2 ** 13 ? 12n : 14n, BigInt(more)];
  }
  weights(last) {
    let total = 0n;
    const squares = this.series(this.horizon).map((one) => (total += one ** 2n)).reverse();
    const all = 4n ** (this.bits + this.more + 1n);
    return squares.slice(0, last).map((one) => (root(all / one) + 1n) / 2n);
  }
}

class BandedRoot extends Strategy {
  places = 10n;
  static async of({ horizon = null, weight_bits: more = 0, series_bits: bits, series, coefficients }) {
    const made = new BandedRoot();
    made.series = await integers(series, coefficients);
    return Object.assign(made, { horizon, more: BigInt(more), bits: BigInt(bits) });
  }
  weights(last) {
    if (!this.more) return Array(last).fill(1n);
    let total = 0n;
    const squares = this.series.map((one) => (total += one ** 2n));
    const all = 4n ** (this.bits + this.more + 1n);
    return range(1, last + 1).map((step) => {
      const left = Math.min(this.horizon - step, squares.length - 1);
      return (root(all / squares[left]) + 1n) / 2n;
    });
  }
  noise(z, last) {
    const [weights, counts, half] = [this.weights(last), [], (1n << this.bits) >> 1n];
    const finer = this.more ? 0n : 10n;
    let total = 0n;
    return range(1, last + 1).map((step) => {
      const past = sum(range(1, Math.min(step, this.series.length)).map((k) => this.series[k] * counts[step - k]));
      counts[step] = (z(0, step) << finer) - ((past + half) >> this.bits);
      const weight = weights[step - 1];
      total += this.more ? floorDiv((counts[step] << 10n) + (weight >> 1n), weight) : counts[step];
      return (total + half) >> this.bits;
    });
  }
}

class EndlessHats extends Strategy {
  places = 10n;
  constructor({ spacing, height, bits }) {
    super();
    [this.spacing, this.height, this.bits] = [spacing, BigInt(height), BigInt(bits)];
    this.own = (1n << this.bits) - this.height;
  }
  hats(step) { // [knot, weight in it, weight in the next knot]
    const past = (step - 1) % this.spacing;
    const right = (2n * this.height * BigInt(past) + BigInt(this.spacing)) / BigInt(2 * this.spacing);
    return [(step - 1 - past) / this.spacing, this.height - right, right];
  }
  inverse() { // from determinants of the matrices of 0, 1, 2, ... rows
    const some = range(1, this.spacing + 1).map((step) => this.hats(step));
    const beside = sum(some.map(([, left, right]) => left * right));
    const middle = this.own ** 2n + sum(some.map(([, left, right]) => left ** 2n + right ** 2n));
    const sizes = [1n, middle];
    while (sizes.length < 50) sizes.push(middle * sizes.at(-1) - beside ** 2n * sizes.at(-2));
    return range(0, 7).map((far) => nearest(
      ((-beside) ** BigInt(far) * sizes[24] * sizes[24 - far]) << (2n * this.bits + 14n), sizes[49],
    ));
  }
  noise(z, last) {
    const knots = Math.floor((last - 1) / this.spacing) + 2;
    const inverse = this.inverse();
    const differences = range(0, knots + 6).map((knot) => -this.own * z(1, knot));
    for (const step of range(1, (knots + 6) * this.spacing + 1)) {
      const [knot, left, right] = this.hats(step);
      differences[knot] += left * z(0, step);
      if (knot + 1 < differences.length) differences[knot + 1] += right * z(0, step);
    }
    const corrections = range(0, knots).map((knot) => {
      const near = range(Math.max(knot - 6, 0), knot + 7);
      const read = sum(near.map((one) => inverse[Math.abs(knot - one)] * differences[one]));
      return nearest(read, 1n << (this.bits + 4n));
    });
    let total = 0n;
    return range(1, last + 1).map((step) => {
      const [knot, left, right] = this.hats(step);
      const rest = (z(0, step) << (this.bits + 10n)) - left * corrections[knot] - right * corrections[knot + 1];
      total += floorDiv(rest + (this.own >> 1n), this.own);
      return (total + ((1n << this.bits) >> 1n)) >> this.bits;
    });
  }
}

class TwoHats extends Strategy { // as EndlessHats, with blocks of knots in place of knots
  places = 10n;
  constructor({ spacing, multiple, height, wide_height: wide, bits }) {
    super();
    [this.multiple, this.steps, this.size, this.bits] = [multiple, spacing * multiple, multiple + 1, BigInt(bits)];
    this.levels = [[spacing, BigInt(height)], [this.steps, BigInt(wide)]];
    this.own = (1n << this.bits) - BigInt(height) - BigInt(wide);
  }
  hats(step) { // [knot, weight], with the knots of a block together: narrow ones, then the wide one
    return this.levels.flatMap(([spacing, height], wide) => {
      const past = (step - 1) % spacing;
      const knot = (step - 1 - past) / spacing;
      const right = (2n * height * BigInt(past) + BigInt(spacing)) / BigInt(2 * spacing);
      return [[knot, height - right], [knot + 1, right]].map(([index, weight]) => {
        if (wide) return [index * this.size + this.multiple, weight];
        return [Math.floor(index / this.multiple) * this.size + (index % this.multiple), weight];
      });
    });
  }
  node(knot) {
    const [block, place] = [Math.floor(knot / this.size), knot % this.size];
    return place === this.multiple ? [2, block] : [1, block * this.multiple + place];
  }
  inverse() { // columns of the inverse at the middle one of 49 blocks, from its rows on
    const [rows, middle] = [49 * this.size, 24 * this.size];
    const system = range(0, rows).map((row) => new Map([[row, this.own ** 2n << 160n]]));
    for (const block of range(-1, 49)) {
      const some = range(1, this.steps + 1).map((step) => this.hats(step));
      for (const hats of some) for (const [one, weight] of hats) for (const [other, factor] of hats) {
        const [row, column] = [block * this.size + one, block * this.size + other];
        if (Math.min(row, column) < 0 || Math.max(row, column) >= rows) continue;
        system[row].set(column, (system[row].get(column) ?? 0n) + ((weight * factor) << 160n));
      }
    }
    const one = 1n << (2n * this.bits + 14n + 320n);
    const right = range(0, rows).map((row) => range(0, this.size).map((at) => (row === middle + at ? one : 0n)));
    for (const row of range(0, rows)) {
      const pivot = system[row].get(row);
      const later = [...system[row].keys()].filter((column) => column > row);
      for (const below of later) {
        const factor = system[below].get(row) ?? 0n;
        for (const column of later) {
          const change = floorDiv(factor * system[row].get(column), pivot);
          system[below].set(column, (system[below].get(column) ?? 0n) - change);
        }
        right[below] = right[below].map((value, at) => value - floorDiv(factor * right[row][at], pivot));
      }
    }
    const solved = range(0, this.size).map(() => []);
    for (const row of range(middle, rows).reverse()) for (const at of range(0, this.size)) {
      const later = [...system[row]].filter(([column]) => column > row);
      const rest = right[row][at] - sum(later.map(([column, weight]) => weight * solved[at][column - middle]));
      solved[at][row - middle] = floorDiv(rest, system[row].get(row));
    }
    return solved.map((column) => column.map((value) => nearest(value, 1n << 160n)));
  }
  noise(z, last) {
    const blocks = Math.floor((last - 1) / this.steps) + 2;
    const inverse = this.inverse();
    const differences = range(0, (blocks + 6) * this.size).map((knot) => -this.own * z(...this.node(knot)));
    for (const step of range(1, (blocks + 6) * this.steps + 1)) {
      for (const [knot, weight] of this.hats(step)) {
        if (knot < differences.length) differences[knot] += weight * z(0, step);
      }
    }
    const corrections = range(0, blocks * this.size).map((knot) => {
      const [block, place] = [Math.floor(knot / this.size), knot % this.size];
      const near = range(Math.max(block - 6, 0), block + 7);
      const read = sum(near.flatMap((other) => range(0, this.size).map((at) => {
        const far = Math.abs(other - block) * this.size;
        const entry = other >= block ? inverse[place][far + at] : inverse[at][far + place];
        return entry * differences[other * this.size + at];
      })));
      return nearest(read, 1n << (this.bits + 4n));
    });
    let total = 0n;
    return range(1, last + 1).map((step) => {
      const corrected = sum(this.hats(step).map(([knot, weight]) => weight * corrections[knot]));
      total += floorDiv((z(0, step) << (this.bits + 10n)) - corrected + (this.own >> 1n), this.own);
      return (total + ((1n << this.bits) >> 1n)) >> this.bits;
    });
  }
}

class GrowingSquareRoot extends Root {
  constructor({ weight_bits: more = 18, even = null }) {
    super();
    [this.more, this.bits] = [more, more > 16 ? 16n : more > 10 ? 14n : 12n];
    this.steep = even === null ? 0 : 8;
    this.equal = even === null ? 12 : 4 * (bitLength(BigInt(even)) - 1);
  }
  node(step) { return [Math.max(0, bitLength(BigInt(step) ** 4n) - 1 - this.equal), step]; }
  factor(level) {
    const [steep, rest] = [BigInt(Math.min(level, this.steep)), BigInt(Math.max(level - this.steep, 0))];
    const [top, bottom] = [13n ** steep * 12n ** rest, 10n ** steep * 11n ** rest];
    return fraction(-floorDiv(-(top << 30n), bottom), 1n << 30n);
  }
  first(level) {
    return level ? Number(root(root((1n << BigInt(level + this.equal)) - 1n)) + 1n) : 1;
  }
  weights(last) { // doubles, in the order that stands here
    const sums = [0];
    for (let [k, one] = [1, 1]; k <= 2 ** 22; k += 1) {
      sums.push(sums[k - 1] + one * one);
      one *= (2 * k - 1) / (2 * k);
    }
    let classes = 0;
    while (this.first(classes) < 2 ** 22) classes += 1;
    const widths = range(0, classes + 160).map((level) => {
      const { top, bottom } = this.factor(level);
      return Number(top) / Number(bottom);
    });
    return range(1, last + 1).map((step) => {
      const ends = range(0, classes + 161).map((level) => this.first(level) - step);
      let beyond = 0;
      for (const level of range(classes, classes + 160).reverse()) {
        const ratio = (ends[level + 1] - 1) / (ends[level] - 1);
        const y = (ratio - 1) / (ratio + 1);
        const square = y * y;
        const log = 2 * y * (1 + square / 3 + (square * square) / (5 * (1 - square)));
        beyond += (log / (Math.PI * widths[level])) * (level >= classes + 156 ? 4 : 1);
      }
      let total = beyond;
      for (const level of range(0, classes).reverse()) {
        const [low, high] = [ends[level], Math.min(ends[level + 1], 2 ** 22 - step)];
        total += (sums[Math.max(high, 0)] - sums[Math.max(low, 0)]) / widths[level];
      }
      return BigInt(Math.floor(2 ** this.more / Math.sqrt(total * (1 + 1e-9))));
    });
  }
}

class WithinBlock extends Root {
  constructor(steps, bits, more) {
    super();
    [this.steps, this.bits, this.more] = [steps, bits, more];
  }
  weights(last) {
    let total = 0n;
    const squares = this.series(this.steps).map((one) => (total += one ** 2n)).reverse();
    return squares.slice(0, last).map((one) => root(4n ** (this.bits + this.more) / one));
  }
}

class GrowingBlocks extends Strategy {
  places = 10n;
  constructor({ weight_bits: more = 18, block = 1024 }) {
    super();
    this.block = block;
    this.between = new GrowingSquareRoot({ weight_bits: more });
    this.within = new WithinBlock(block - 1, this.between.bits, BigInt(more));
  }
  factor(level) {
    if (!level) return ONE;
    return this.between.factor(level - 1).times(fraction(4, 5));
  }
  noise(z, last) {
    const finished = Math.floor(last / this.block);
    const between = [0n];
    if (finished) between.push(...this.between.noise((level, node) => z(1 + level, node), finished));
    return between.flatMap((total, number) => {
      const before = number * this.block;
      const steps = Math.min(this.block - 1, last - before);
      const within = steps ? this.within.noise((_, node) => z(0, before + node), steps) : [];
      return [0n, ...within].map((one) => total + one);
    }).slice(1);
  }
}

async function integers(text, size) {
  const [width, packed] = [Number(text[0]), Buffer.from(text.slice(2), "base64")];
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (planes.length !== width * size) throw Error("not so many integers");
  return range(0, size).map((at) => BigInt.asIntN(8 * width, sum(
    range(0, width).map((byte) => BigInt(planes[byte * size + at]) << BigInt(8 * byte)),
  )));
}

async function checkDigest(numbers, stated) {
  const bytes = new Uint8Array(BigInt64Array.from(numbers).buffer);
  if (hex(new Uint8Array(await subtle.digest("SHA-256", bytes))) !== stated) throw Error("digest");
}

async function hats({ cells, norm, bits, spacings, amplitudes, amplitudes_sha256: digest }) {
  const spaced = spacings.map((one) => typeof one !== "number" ? one
    : range(0, Math.ceil(cells / one) + 1).map((at) => at * one));
  const heights = await integers(amplitudes, spaced.flat().length);
  await checkDigest(heights, digest);
  const rows = [];
  for (const knots of spaced) {
    const [found, mine] = [knots.map(() => new Map()), heights.splice(0, knots.length)];
    for (const i of range(0, knots.length - 1)) {
      const [start, stop] = [knots[i], knots[i + 1]];
      for (const cell of range(i ? start : 0, Math.min(stop, cells))) {
        const [width, risen] = [BigInt(2 * (stop - start)), BigInt(Math.max(2 * (cell - start) + 1, 0))];
        found[i].set(cell, nearest(mine[i] * (width - risen), width));
        found[i + 1].set(cell, nearest(mine[i + 1] * risen, width));
      }
    }
    rows.push(...found);
  }
  const power = BigInt(norm);
  const own = range(0, cells).map((cell) => {
    const left = 2n ** (BigInt(bits) * power) - sum(rows.map((row) => (row.get(cell) ?? 0n) ** power));
    return norm === 1 ? left : root(left);
  });
  return [rows, own];
}

async function dense(told) {
  const { cells, formula = null } = told;
  const flat = formula === null ? await integers(told.matrix, cells * told.measurements)
    : scaledRoot(cells, formula);
  await checkDigest(flat, told.matrix_sha256);
  const rows = range(0, flat.length / cells).map((i) => new Map(
    range(0, cells).map((cell) => [cell, flat[i * cells + cell]]).filter(([, weight]) => weight),
  ));
  const [own, place] = [Array(cells).fill(0n), Array(cells).fill(-1)];
  rows.forEach((row, number) => {
    for (const [cell, weight] of row) {
      if (row.size === 1 && weight > own[cell]) [own[cell], place[cell]] = [weight, number];
    }
  });
  return [rows.filter((_, number) => !place.includes(number)), own];
}

function scaledRoot(steps, formula) { // doubles, in the order that stands here
  const roots = (base, ...powers) => powers.reduce((found, power) =>
    found * range(0, power).reduce((factor) => Math.sqrt(factor), base), 1);
  const [f, squares, matrix] = [[1], Array(steps).fill(0), []];
  for (const k of range(1, steps)) f.push((f[k - 1] * (2 * k - 1)) / (2 * k));
  for (const i of range(0, steps)) {
    const p = formula === "mean"
      ? roots(i + 10.5, 3, 5) * roots(steps - i + 0.58, 2, 3, 4) * (1 + (0.17 * (i + 0.5)) / steps)
      : roots(i + 8, 3, 4) * roots(steps - i, 2);
    matrix.push(range(0, steps).map((j) => (j <= i ? f[i - j] * p : 0)));
    matrix[i].forEach((one, j) => { squares[j] += one * one; });
  }
  const even = (x) => { // to the nearest, halves to even
    const down = Math.floor(x);
    return x - down > 0.5 || (x - down === 0.5 && down % 2) ? down + 1 : down;
  };
  return matrix.flatMap((row) => row.map((one, j) => BigInt(even((one / Math.sqrt(squares[j])) * 65536))));
}

function solve(equations) { // [Map from unknowns to coefficients, right side], in units of 2^-640
  equations.forEach(([head, known], k) => {
    for (const equation of equations.slice(k + 1)) {
      const [row] = equation;
      if (!row.has(k)) continue;
      const share = (row.get(k) << PRECISION) / head.get(k);
      row.delete(k);
      for (const [j, one] of head) if (j > k) row.set(j, (row.get(j) ?? 0n) - multiply(share, one));
      equation[1] -= multiply(share, known);
    }
  });
  const found = [];
  for (const k of range(0, equations.length).reverse()) {
    const [row, right] = equations[k];
    const known = sum([...row].filter(([j]) => j > k).map(([j, one]) => multiply(one, found[j])));
    found[k] = ((right - known) << PRECISION) / row.get(k);
  }
  return found;
}

function nearby(value, most) { // the nearest fraction with a denominator of at most so much
  if (value.bottom <= most) return value;
  let [p0, q0, p1, q1, n, d] = [0n, 1n, 1n, 0n, value.top, value.bottom];
  for (;;) {
    const a = floorDiv(n, d);
    if (q0 + a * q1 > most) break;
    [p0, q0, p1, q1] = [p1, q1, p0 + a * p1, q0 + a * q1];
    [n, d] = [d, n - a * d];
  }
  const k = (most - q0) / q1;
  const [one, other] = [fraction(p0 + k * p1, q0 + k * q1), fraction(p1, q1)];
  const apart = (x) => { const by = x.minus(value); return by.top < 0n ? fraction(0).minus(by) : by; };
  return apart(one).below(apart(other)) ? one : other;
}

class LeastSquares extends Strategy {
  places = 10n;
  static async of({ line, radices = [], shares = [], norm = 1 }) {
    const made = new LeastSquares();
    [made.rows, made.own] = await (line.strategy === "Hats" ? hats : dense)(line);
    [made.radices, made.top, made.widths] = [radices, radices.length, [1]];
    for (const radix of radices) made.widths.push(made.widths.at(-1) * radix);
    const some = shares.length ? shares : Array(made.top).fill(1);
    made.shares = (radices.length ? [...some, 0].slice(0, made.top + 1) : [1]).map(BigInt);
    const powers = sum(made.shares.map((share) => share ** BigInt(norm)));
    const unit = !radices.length ? 1n : norm === 1 ? powers : root(powers - 1n) + 1n;
    made.rows = made.rows.map((row) => new Map([...row].map(([cell, one]) => [cell, unit * one])));
    const [alone, square] = [(share) => fraction(1, share ** 2n), (x) => x.times(x)];
    [made.parts, made.v] = [[0n], alone(made.shares[0])];
    radices.forEach((radix, at) => {
      const level = at + 1;
      const below = (level < made.top ? alone(made.shares[at]) : made.v).times(fraction(radix));
      const single = made.shares[level] ? alone(made.shares[level]) : null;
      let share = 256n;
      if (single) { // halves to even
        const exact = single.over(single.plus(below)).times(fraction(256));
        share = nearest(exact.top, exact.bottom);
        if (exact.bottom === 2n && share % 2n) share -= 1n;
      }
      made.parts.push(share);
      const weight = fraction(share, 256);
      made.v = square(weight).times(below)
        .plus(square(ONE.minus(weight)).times(single ?? fraction(0)));
    });
    made.v = nearby(made.v, 1n << 22n);
    return made;
  }
  estimate(z, level, node, depth) {
    const cell = Math.floor((node * this.widths[level]) / this.widths.at(-1));
    const own = this.shares[level] * this.own[cell];
    const measured = own ? nearest(z(1 + level, node) << 24n, own) : 0n;
    if (!depth) return measured;
    const radix = this.radices[level - 1];
    const below = range(node * radix, (node + 1) * radix);
    const lack = sum(below.map((one) => this.estimate(z, level - 1, one, depth - 1))) - measured;
    return measured + nearest(lack * (own ? this.parts[level] : 256n), 256n);
  }
  noise(z, last) {
    const known = this.own.map((own, cell) => this.top
      ? this.estimate(z, this.top, cell, Math.min(this.top, 2)) << (PRECISION - 24n)
      : own ? (z(1, cell) << PRECISION) / own : 0n);
    let total = 0n;
    const sums = [0n, ...this.cells(z, known).map((one) => (total += one))];
    if (!this.top) return range(1, last + 1).map((step) => roundTo(sums[step], 10));
    const grid = sums.map((one) => roundTo(one, 14) << 10n);
    return range(0, last).map((at) => {
      const block = Math.floor(at / this.widths.at(-1));
      return nearest(this.inside(z, grid[block], grid[block + 1], at), 1n << 14n);
    });
  }
  cells(z, known) {
    const weights = this.own.map((own) => real(fraction(own ** 2n).over(this.v)));
    const [u, r] = weights.every(Boolean) ? [0, known.length] : [this.rows.length, 0];
    const equations = [];
    weights.forEach((weight, cell) => {
      equations[u + cell] = [new Map([[u + cell, weight]]), multiply(weight, known[cell])];
    });
    this.rows.forEach((row, i) => {
      equations[r + i] = [new Map([[r + i, UNIT]]), z(0, i) << PRECISION];
      for (const [cell, one] of row) {
        equations[r + i][0].set(u + cell, one << PRECISION);
        equations[u + cell][0].set(r + i, -one << PRECISION);
      }
    });
    return solve(equations).slice(u, u + known.length);
  }
  inside(z, start, after, at) {
    let [before, node, total] = [start, Math.floor(at / this.widths.at(-1)), after - start];
    for (const level of range(0, this.top).reverse()) {
      const radix = this.radices[level];
      const family = range(node * radix, (node + 1) * radix);
      const found = family.map((one) => this.estimate(z, level, one, Math.min(level, 1)));
      const added = nearest(total - sum(found), BigInt(radix));
      const child = Math.floor(at / this.widths[level]) - family[0];
      before += sum(found.slice(0, child)) + BigInt(child) * added;
      [total, node] = [found[child] + added, family[child]];
    }
    return before + total;
  }
}

class WindowVersions extends Strategy {
  static async of({ inner, nodes }) {
    const found = new WindowVersions();
    found.inner = await strategyOf(inner);
    found.versions = inner.horizon ?? inner.line.cells;
    found.widths = new Map(nodes);
    found.places = found.inner.places;
    return found;
  }
  // Of each step what of window step - version has arrived by then.
  noise(z, last, version = this.versions - 1) {
    return range(1, last + 1).map((step) => {
      const before = step - version - 1 + this.versions - 1;
      const own = (level, index) => z(level, index + before * (this.widths.get(level) ?? 0));
      return this.inner.noise(own, version + 1)[version];
    });
  }
}

const factorisation = ({ horizon, bits, ...matrix }) =>
  LeastSquares.of({ line: { strategy: "Dense", cells: horizon, ...matrix } });

const STRATEGIES = {
  KAry, Binary, SmoothBinary, Independent, Expiring, HonakerOnline, LookAhead, Epochs,
  SqrtToeplitz, NormalisedSqrt, GrowingSquareRoot, GrowingBlocks, GrowingCascade,
  EndlessHats,
};
const strategyOf = (told) => {
  if (told.strategy === "Solved") return LeastSquares.of(told);
  if (told.strategy === "Octave") return Octave.of(told);
  if (told.strategy === "Factorisation") return factorisation(told);
  if (told.strategy.endsWith("BandedRoot")) return BandedRoot.of(told);
  if (told.strategy === "WindowVersions") return WindowVersions.of(told);
  if (told.strategy === "EndlessHats" && told.multiple) return new TwoHats(told);
  return new STRATEGIES[told.strategy](told);
};

// ----------------------------------------------------------------------------------- released

async function released(secret, terms, sums) {
  const strategy = await strategyOf(terms.strategy);
  const bound = address(terms);
  const printed = hex((await subkey(secret, "fingerprint")).slice(0, 8));
  const identity = await subtle.digest("SHA-256", utf8(`identity of noise\n${printed}\n${bound}`));
  if (hex(new Uint8Array(identity)).slice(0, 32) !== terms.noise_id) throw Error("another key");
  const bits = await Bits.under(await subkey(secret, "counter", bound));
  const [family, width] = lawOf(terms.law);
  const law = cached((text) => {
    const [named, wide] = text.split(" ");
    return new (named === "laplace" ? Laplace : Gaussian)(Fraction.of(wide));
  });
  const found = [];
  for (const [row, totals] of sums.entries()) {
    const [cell, version] = [Math.floor(row / strategy.versions), row % strategy.versions];
    const drawn = new Map(); // first which nodes are read, as if all were 0, then what they are
    strategy.noise((level, index) => { drawn.set(`${level},${index}`, [level, index]); return 0n; }, totals.length, version);
    for (const [name, [level, index]] of drawn) {
      const where = terms.shape.length ? [level, index, cell] : [level, 0, index];
      const [named, wide] = [family, width.times(strategy.factor(level))];
      drawn.set(name, await law(`${named} ${wide}`).draw(bits, where));
    }
    const noise = strategy.noise((level, index) => drawn.get(`${level},${index}`), totals.length, version);
    found.push(totals.map((total, at) => (BigInt(total) << strategy.places) + noise[at]));
  }
  return found;
}

let [right, wrong] = [0, 0];
for (const file of process.argv.slice(2)) {
  // Integers beyond 2^53 are kept as they stand.
  const text = readFileSync(file, "utf8").replace(/"released": .*/g, (line) => line.replace(/-?\d+/g, '"$&"'));
  for (const { key, terms, sums, released: stated } of JSON.parse(text)) {
    const found = await released(unhex(key), terms, sums);
    if (`${found}` === `${stated}`) right += 1;
    else {
      wrong += 1;
      console.log(`${file}, ${terms.name}: ${found} is not ${stated}`.slice(0, 400));
    }
  }
}
console.log(`${right} of ${right + wrong} answers are met`);
process.exitCode = wrong || !right ? 1 : 0;
