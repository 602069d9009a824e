// The page's own script on a document of stand-ins, driven by pointers and keys. usage: node page_test.js PAGE CASE
'use strict';
const assert = require('assert'), fs = require('fs');
const page = fs.readFileSync(process.argv[2], 'utf8');

class Element {
  constructor(tag) {
    Object.assign(this, {tag, children: [], listeners: {}, style: {}, hidden: false, value: '', textContent: '', className: '',
                         clientWidth: 800, clientHeight: 600, width: 0, height: 0, offsetWidth: 10, offsetHeight: 10});
  }
  addEventListener(name, f) { (this.listeners[name] ||= []).push(f); }
  send(name, event = {}) {
    for (const f of this.listeners[name] || []) f({preventDefault() {}, pointerId: 1, shiftKey: false, ...event});
  }
  prepend(...more) { this.children.unshift(...more); }
  append(...more) { this.children.push(...more); if (this.tag === 'select' && this.value === '') this.value = String(more[0].value); }
  replaceChildren(...now) { this.children = now; }
  setPointerCapture() {}
  focus() { focused = this; }
  click() { this.send('click'); if (this.tag === 'a') clicked.push(this); }
  getContext() { return pen; }
  toBlob(f) { f({made: 'png'}); }
}
let focused = null;
const clicked = [], words = [], frames = [];
const pen = new Proxy({}, {
  get: (_, name) => name === 'measureText' ? () => ({width: 10})
      : name === 'createImageData' ? (w, h) => ({data: new Uint8ClampedArray(4 * w * h)})
      : name === 'fillText' ? text => { words.push(text); }
      : () => {},
  set: () => true});
const by_id = {};
for (const [, tag, id] of page.matchAll(/<(\w+)[^>]* id="([\w-]+)"/g)) by_id[id] = new Element(tag);
by_id.data.textContent = page.match(/<script type="application\/json" id="data">(.*?)<\/script>/s)[1];
by_id.colour.value = 'size';
by_id.axis.value = 'tick';
by_id.alive.hidden = true;
const blobs = [], world = {};
const globals = {
  document: {getElementById: id => by_id[id], createElement: tag => new Element(tag), documentElement: {}},
  getComputedStyle: () => ({getPropertyValue: () => '#000'}), matchMedia: () => new Element('media'), devicePixelRatio: 1,
  requestAnimationFrame: f => frames.push(f), addEventListener: (name, f) => { (world[name] ||= []).push(f); },
  Option: class { constructor(text, value) { this.value = value; } },
  Blob: class { constructor(parts) { this.text = parts.join(''); blobs.push(this); } },
  history: {replaceState() {}}, location: {hash: ''},
  URL: {createObjectURL: () => 'blob:', revokeObjectURL() {}}, setTimeout: () => {},
};
const script = page.match(/<script>\n(.*)<\/script>/s)[1];
const inside = new Function(...Object.keys(globals), script +
    '\nreturn {us_text, layouts, view: () => view, full: () => full, pinned: () => pinned, layout, sx, sy, svg_text, shown: () => shown, palette: () => palette};')(...Object.values(globals));
const paint = () => { while (frames.length) frames.shift()(); };
const map = by_id.map, g = inside.layout(), rows = () => by_id['alive-list'].children.map(row => row.children[0].textContent);
const at = (t, o) => ({offsetX: inside.sx(t, g), offsetY: inside.sy(o, g)});
paint();

const cases = {
  // Two buffers: x of 60 bytes at 0 in [0, 4), y of 40 at 60 in [2, 6).
  plan() {
    const {x0, x1} = g, whole = {...inside.full()};
    // A tap pins; what moves in between is a drag and pins nothing.
    map.send('pointerdown', at(1, 30)); map.send('pointerup', at(1, 30));
    assert.strictEqual(by_id.alive.hidden, false);
    assert.strictEqual(by_id['alive-when'].textContent, '60 B alive at 1, in 1 buffers');
    assert.deepStrictEqual(rows().map(r => r.split(' at ')[0]), ['60 B  x']);
    for (const f of world.keydown) f({key: 'Escape'});
    assert.ok(by_id.alive.hidden && inside.pinned() === null && focused === map);
    map.send('pointerdown', at(3, 80)); map.send('pointermove', at(2, 80)); map.send('pointerup', at(2, 80));
    assert.strictEqual(inside.pinned(), null);
    // Two fingers, sideways: what is between them stays, the stretch of time shrinks by as much as they part.
    map.send('pointerdown', {pointerId: 1, offsetX: x0 + 200, offsetY: 100});
    map.send('pointerdown', {pointerId: 2, offsetX: x0 + 300, offsetY: 100});
    map.send('pointermove', {pointerId: 1, offsetX: x0 + 150, offsetY: 100});
    map.send('pointermove', {pointerId: 2, offsetX: x0 + 350, offsetY: 100});
    map.send('pointerup', {pointerId: 1, offsetX: x0 + 150, offsetY: 100});
    map.send('pointerup', {pointerId: 2, offsetX: x0 + 350, offsetY: 100});
    const v = inside.view(), middle = whole.left + 250 / (x1 - x0) * (whole.right - whole.left);
    assert.ok(Math.abs((v.right - v.left) - (whole.right - whole.left) / 2) < 1e-6, JSON.stringify(v));
    assert.ok(Math.abs(v.left + 250 / (x1 - x0) * (v.right - v.left) - middle) < 1e-6);
    assert.ok(v.bottom === whole.bottom && v.top === whole.top && inside.pinned() === null);
    for (let k = 0; k < 4; ++k) by_id.farther.click();
    assert.deepStrictEqual(inside.view(), whole);
    by_id.nearer.click();
    assert.ok(inside.view().right - inside.view().left < 5);
    by_id.whole.click();
    // Keys, the peak, and what is listed there.
    map.send('keydown', {key: 'Enter'});
    assert.deepStrictEqual(rows().map(r => r.split(' at ')[0]), ['60 B  x', '40 B  y']);
    map.send('keydown', {key: 'Escape'});
    by_id['to-peak'].click();
    assert.strictEqual(by_id['alive-when'].textContent, '100 B alive at 2, in 2 buffers');
    by_id.close.click();
    assert.ok(by_id.alive.hidden);
    // A search steps through what it finds, round and back.
    by_id.find.value = '';
    by_id.find.send('input');
    by_id.find.send('keydown', {key: 'Enter'});
    assert.strictEqual(inside.pinned(), null);
    by_id.find.value = 'Y';
    by_id.find.send('input');
    assert.strictEqual(by_id.found.textContent, '1 of 2 buffers');
    by_id.find.send('keydown', {key: 'Enter'});
    assert.ok(by_id.found.textContent === '1 of 1' && inside.pinned().hit === 1 && inside.pinned().at === 2);
    by_id.find.send('keydown', {key: 'Enter', shiftKey: true});
    assert.strictEqual(by_id.found.textContent, '1 of 1');
    assert.ok(rows().length === 2 && by_id['alive-list'].children[1].children[0].className === 'this');
    by_id['alive-list'].children[0].children[0].click();
    assert.strictEqual(inside.pinned().hit, 0);
    by_id.whole.click();
    // Exports.
    by_id['as-svg'].click();
    assert.strictEqual((blobs[0].text.match(/<rect /g) || []).length, 2);
    assert.ok(blobs[0].text.includes('<title>x: 60 B</title>') && clicked.at(-1).download === 'f.svg');
    by_id['as-png'].click();
    assert.strictEqual(clicked.at(-1).download, 'f.png');
    paint();
    for (const [us, text] of [[3500000, '3.5 s'], [999, '999 us'], [1500, '1.5 ms'], [0, '0 us'], [0.25, '0.25 us'], [-2e6, '-2 s']]) {
      assert.strictEqual(inside.us_text(us), text);
    }
    assert.strictEqual(inside.us_text(3500000.5, 10), '3,500,000.5 us');
  },
  // Before: x of 60 bytes at 0 in [0, 4), y of 40 at 60 in [2, 6). After: y of 50 at 0, z of 8 at 50, both in [2, 6), and
  // x of 60 at 64 in [0, 2).
  beside() {
    const [before, after] = inside.layouts();
    assert.ok(before.x1 < after.x0 && before.x1 - before.x0 === after.x1 - after.x0 && before.y1 === after.y1);
    assert.strictEqual(inside.full().top, 124 * 1.04);  // one scale for both
    assert.ok(words.includes('before: old.json') && words.includes('after: f'));
    assert.ok(words.includes('▲ y') && words.includes('→ x') && words.includes('+ z'));
    by_id.differences.click();
    const differing = () => rows().map(r => r.split(' at ')[0]);
    assert.deepStrictEqual(differing(), ['+10 B  50 B  y', '+8 B  8 B  z', '±0 B  60 B  x']);
    assert.ok(by_id['alive-when'].textContent.startsWith('3 buffers differ: 1 moved, 1 grown, 1 new. Bytes to the top: before 100 B, after 124 B'));
    assert.ok(rows()[0].includes('grown; before 40 B at 60, alive [2, 6)'), rows()[0]);
    for (const f of world.keydown) f({key: 'Escape'});
    assert.ok(by_id.alive.hidden && focused === map);
    map.send('keydown', {key: 'd'});
    assert.strictEqual(differing().length, 3);
    // A row brings the buffer into view, in both pictures, and names who is alive, each once.
    by_id['alive-list'].children[0].children[0].click();
    assert.strictEqual(inside.pinned().hit, 0);
    assert.strictEqual(by_id['alive-when'].textContent, 'before 100 B alive at 2, in 2 buffers; after 58 B alive at 2, in 2 buffers');
    assert.deepStrictEqual(differing(), ['60 B  x', '50 B  y', '8 B  z']);
    // A tap at the left is one at what was.
    by_id.whole.click();
    map.send('pointerdown', {offsetX: inside.sx(3, before), offsetY: inside.sy(80, before)});
    map.send('pointerup', {offsetX: inside.sx(3, before), offsetY: inside.sy(80, before)});
    assert.strictEqual(inside.pinned().hit, 4);
    paint();
    by_id['as-svg'].click();
    assert.strictEqual((blobs[0].text.match(/<rect /g) || []).length, 5);
    assert.ok(blobs[0].text.includes('<title>z: 8 B, new</title>') && blobs[0].text.includes('before: old.json: 0 to 6'));
    // On a phone one is above the other.
    map.clientWidth = 360;
    const [above, below] = inside.layouts();
    assert.ok(above.c1 < below.y0 && above.x0 === below.x0 && above.x1 === below.x1);
  },
  // x stays in slab 0, w goes from there to slab 1, and y grows in slab 1.
  memories() {
    map.send('keydown', {key: 'd'});
    assert.ok(by_id['alive-when'].textContent.startsWith('1 buffers differ in slab 0: 1 moved. Bytes to the top: before 12 B, after 8 B'), by_id['alive-when'].textContent);
    assert.deepStrictEqual(rows(), ['±0 B  4 B  w at 8, alive [0, 2) ticks, moved; after 4 B at 16 in slab 1, alive [0, 2)']);
    by_id.memory.value = '1';
    by_id.memory.send('change');
    map.send('keydown', {key: 'd'});
    assert.ok(by_id['alive-when'].textContent.startsWith('2 buffers differ in slab 1: 1 moved, 1 grown. Bytes to the top: before 8 B, after 20 B'), by_id['alive-when'].textContent);
    for (const [k, row] of by_id['alive-list'].children.entries()) {
      row.children[0].click();
      assert.ok(inside.shown().includes(inside.pinned().hit), k);
      map.send('keydown', {key: 'd'});
    }
  },
  empty() {
    assert.ok(words.some(w => w.startsWith('Nothing is ever alive')));
    map.send('pointerdown', {offsetX: 300, offsetY: 100}); map.send('pointerup', {offsetX: 300, offsetY: 100});
    assert.ok(by_id['alive-when'].textContent.startsWith('Nothing') && rows().length === 0);
    for (const id of ['nearer', 'farther', 'to-peak', 'whole', 'as-svg']) by_id[id].click();
    by_id.find.value = 'x'; by_id.find.send('input'); by_id.find.send('keydown', {key: 'Enter'});
    paint();
    assert.ok(blobs[0].text.includes('peak 0 B at 0'), blobs[0].text);
  },
  // A request of 40 MiB failed at event 24, where the largest hole had 20 MiB.
  failed() {
    assert.ok(words.includes('failed: 40.0 MiB; largest hole 20.0 MiB'), words.join());
    assert.strictEqual(by_id['to-failed'].hidden, false);
    map.send('keydown', {key: 'f'});
    const {left, right} = inside.view();
    assert.ok(left < 24 && right >= 24 && right - left <= 10, JSON.stringify(inside.view()));
    assert.strictEqual(by_id['alive-when'].textContent, '160.0 MiB alive at 23, in 8 buffers');
    const [lo, hi] = [0, 63].map(k => inside.palette()[k].reduce((a, b) => a + b));
    assert.ok(hi > lo + 300);  // the ramp rises in lightness
  },
  // x of 1 byte in [5, 9): the peak is there, and not at 0.
  one_byte() {
    by_id['as-svg'].click();
    assert.ok(blobs[0].text.includes('peak 1 B at 5') && blobs[0].text.includes('<title>x&#65533;: 1 B</title>'), blobs[0].text);
  },
  // Names that mark-up would obey.
  names() {
    by_id['as-svg'].click();
    assert.ok(!/<script|\u0001/.test(blobs[0].text) && blobs[0].text.includes('&#60;script&#62;'));
    map.send('keydown', {key: 'Enter'});
    assert.ok(rows()[0].includes('<script>'));  // as text
  },
};
cases[process.argv[3]]();
