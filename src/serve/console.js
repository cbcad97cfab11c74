'use strict';

// Polls status.json and draws it. No state but the last document: a reload of the page loses
// nothing.
const POLL_MS = 1000;
const byId = (id) => document.getElementById(id);
const setText = (id, text) => { byId(id).textContent = text; };

// ---- numbers -----------------------------------------------------------------------------------

const grouped = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const short = (value) => (value < 100 ? String(Number(value.toPrecision(3))) : grouped.format(value));

function duration(seconds) {
  if (seconds === 0) return '–';
  if (seconds < 1e-3) return `${short(seconds * 1e6)} µs`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  return `${short(seconds)} s`;
}

function span(seconds) {
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = Math.max(0, units.findIndex(([, size]) => seconds >= size));
  if (seconds < 1) return '0 s';
  let rest = Math.floor(seconds);
  return units.slice(first, first + 2).flatMap(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 ? [`${count} ${unit}`] : [];
  }).join(' ');
}

const percent = (share) => `${short(100 * share)} %`;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const ratio = (part, whole) => (whole > 0 ? part / whole : 0);

// ---- elements ----------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes, text = '') {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// Rows of [term, text] or [term, text, class, title].
function fillList(id, rows) {
  byId(id).replaceChildren(...rows.flatMap(([term, text, name, title]) => {
    const value = element('dd', {}, text);
    if (name) value.className = name;
    if (title) value.title = title;
    return [element('dt', {}, term), value];
  }));
}

// ---- charts ------------------------------------------------------------------------------------

// The next of 1, 2, 3, 4, 5, 6, 8, 10, 20, ... at or above the value.
function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999999);
}

// series: [{name, className, values}], all of one length, one value a second, the last one now.
class Chart {
  static MARGIN = {left: 52, right: 8, top: 8, bottom: 20};

  constructor(id, {format, area = false, floor, ceiling = Infinity}) {
    this.svg = byId(id);
    Object.assign(this, {format, area, floor, ceiling, series: [], pointer: null});
    this.svg.addEventListener('pointermove', (event) => { this.pointer = event; this.draw(); });
    this.svg.addEventListener('pointerleave', () => { this.pointer = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const {width, height} = this.svg.getBoundingClientRect();
    if (width === 0 || this.series.length === 0) return;
    const {left, right, top, bottom} = Chart.MARGIN;
    const length = Math.max(2, this.series[0].values.length);
    const largest = Math.max(this.floor, ...this.series.flatMap((one) => one.values));
    const high = Math.min(this.ceiling, niceCeiling(largest));
    const x = (i) => left + (i / (length - 1)) * (width - left - right);
    const y = (value) => height - bottom - (Math.min(value, high) / high) * (height - top - bottom);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(share * high)) + 0.5;
      parts.push(shape('line', {class: 'grid', x1: left, x2: width - right, y1: at, y2: at}));
      parts.push(shape('text', {x: left - 8, y: at + 4, 'text-anchor': 'end'},
                       share === 0 ? '0' : this.format(share * high)));
    }
    parts.push(shape('text', {x: left, y: height - 4}, `${span(length)} ago`));
    parts.push(shape('text', {x: width - right, y: height - 4, 'text-anchor': 'end'}, 'now'));
    for (const {className, values} of this.series) {
      const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
      if (points.length === 0) continue;
      if (this.area) {
        parts.push(shape('polygon', {class: 'area',
          points: `${left},${y(0)} ${points.join(' ')} ${x(values.length - 1)},${y(0)}`}));
      }
      parts.push(shape('polyline', {class: `series ${className}`, points: points.join(' ')}));
    }
    parts.push(...this.cross(x, y, length, width, height));
    this.svg.replaceChildren(...parts);
  }

  // The line under the pointer, and the values it meets.
  cross(x, y, length, width, height) {
    const tip = byId('tip');
    const owner = tip.dataset.owner === this.svg.id;
    if (this.pointer === null || this.series[0].values.length === 0) {
      if (owner) tip.hidden = true;
      return [];
    }
    const {left, right, top, bottom} = Chart.MARGIN;
    const from = this.pointer.clientX - this.svg.getBoundingClientRect().left - left;
    const share = Math.min(1, Math.max(0, from / (width - left - right)));
    const i = Math.min(this.series[0].values.length - 1, Math.round(share * (length - 1)));
    const lines = this.series.map(({name, values}) => `${name}${this.format(values[i])}`);
    tip.textContent = [`${span(length - i)} ago`, ...lines].join('\n');
    tip.dataset.owner = this.svg.id;
    tip.hidden = false;
    const place = Math.min(this.pointer.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${place}px`;
    tip.style.top = `${this.pointer.clientY + 14}px`;
    return [
      shape('line', {class: 'cross', x1: x(i), x2: x(i), y1: top, y2: height - bottom}),
      ...this.series.map(({className, values}) =>
        shape('circle', {class: `dot ${className}`, cx: x(i), cy: y(values[i]), r: 4})),
    ];
  }
}

const charts = {
  requests: new Chart('requests-chart', {format: short, area: true, floor: 1}),
  latency: new Chart('latency-chart', {format: duration, floor: 1e-5}),
  noised: new Chart('noised-chart', {format: percent, area: true, floor: 0.001, ceiling: 1}),
};

// ---- parts of the page -------------------------------------------------------------------------

function showHealth(status) {
  const pill = byId('health');
  pill.textContent = status.draining ? 'draining' : status.ready ? 'ready' : 'not ready';
  pill.className = `pill ${status.ready && !status.draining ? 'good' : 'bad'}`;
  setText('model', status.model);
  setText('uptime', `up ${span(status.uptime)} · LUCID ${status.version}`);
  document.title = `${status.model} · LUCID`;
  byId('note').hidden = status.note === '';
  setText('note', status.note);
}

function showTiles({traffic, budget, guard}) {
  const {seconds, latency} = traffic;
  const recent = seconds.requests.slice(-5);
  setText('rate', short(ratio(sum(recent), recent.length)));
  setText('rate-detail', `${grouped.format(traffic.requests)} requests, ` +
    `${grouped.format(traffic.rows)} rows since the start`);
  setText('p99', duration(latency.p99));
  setText('latency-detail', [['50', latency.p50], ['90', latency.p90], ['99.9', latency.p999]]
    // No break inside of an entry.
    .map(([share, seconds]) => `${share} %: ${duration(seconds)}`.replaceAll(' ', '\u00a0')).join(' · '));
  setText('noised', traffic.rows > 0 ? percent(traffic.noised_share) : '–');
  const minute = {rows: sum(seconds.rows.slice(-60)), noised: sum(seconds.noised.slice(-60))};
  setText('noised-detail', minute.rows > 0 ?
    `${percent(ratio(minute.noised, minute.rows))} in the last minute` : 'no rows in the last minute');
  showBudget(budget, guard.epsilon);
}

function showBudget(budget, epsilon) {
  const limited = budget !== null && budget.total !== null;
  byId('budget-meter').hidden = !limited;
  if (budget === null) {
    setText('budget', epsilon === 0 ? 'free' : 'none');
    setText('budget-unit', '');
    setText('budget-detail', epsilon === 0 ? 'at epsilon 0 queries compose for nothing' : 'no ledger');
  } else if (limited) {
    setText('budget', short(Math.max(0, budget.total - budget.spent)));
    setText('budget-unit', 'epsilon left');
    byId('budget-meter').value = ratio(budget.spent, budget.total);
    setText('budget-detail', `${short(budget.spent)} of ${short(budget.total)} spent on ` +
      `${grouped.format(budget.answers)} answers`);
  } else {
    setText('budget', short(budget.spent));
    setText('budget-unit', 'epsilon spent');
    setText('budget-detail', `${grouped.format(budget.answers)} answers; no overall limit`);
  }
}

function showCharts({seconds}) {
  charts.requests.show([{name: '', className: 'first', values: seconds.requests}]);
  charts.latency.show([
    {name: 'median ', className: 'first', values: seconds.p50},
    {name: '99th percentile ', className: 'second', values: seconds.p99},
  ]);
  charts.noised.show([{name: '', className: 'first',
    values: seconds.noised.map((noised, i) => ratio(noised, seconds.rows[i]))}]);
}

// Solid up to what an attack reached, lighter up to what is proved.
function boundBar({beta_lower: lower, beta_upper: upper}, largest) {
  const bar = shape('svg', {viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  const at = (value) => 100 * ratio(value, largest);
  bar.replaceChildren(
    shape('rect', {class: 'track', width: 100, height: 6}),
    shape('rect', {class: 'open', width: upper === null ? 100 : at(upper), height: 6}),
    shape('rect', {class: 'proved', width: at(lower), height: 6}));
  return bar;
}

function showPromise(promise) {
  setText('promise-name', promise.title);
  byId('promise-lines').replaceChildren(...promise.lines.map((line) => element('li', {}, line)));
}

// Bounds that a private run declared: nothing was searched, so there is nothing beside them.
function showDeclared(guard) {
  setText('bounds-title', 'Declared bounds');
  byId('classes').replaceChildren(...guard.bounds.map((one) =>
    element('tr', {}, element('td', {}, one.name), element('td', {}, one.bound.toPrecision(4)),
            element('td', {}, '–'), element('td', {}, 'declared'))));
  fillList('certificate', [['Domain', guard.domain]]);
  byId('partial').hidden = true;
}

function showCertificate(certificate) {
  setText('bounds-title', 'Certificate');
  const {classes, hashes} = certificate;
  const largest = Math.max(...classes.map((one) => one.beta_upper ?? one.beta_lower), 1e-300);
  byId('classes').replaceChildren(...classes.map((one) => {
    const text = one.beta_upper === null ? 'none: all noised' :
      `${one.beta_lower.toPrecision(4)} – ${one.beta_upper.toPrecision(4)}`;
    const bound = element('div', {class: 'bound'}, boundBar(one, largest), text);
    return element('tr', {}, element('td', {}, one.name), element('td', {}, bound),
                   element('td', {}, percent(one.gap)), element('td', {}, one.status));
  }));
  const hash = (name, value) => [name, value, 'hash', value];
  fillList('certificate', [
    ['Rows protected', `${grouped.format(certificate.members)} of ${grouped.format(certificate.rows)}`],
    ['Domain', certificate.domain],
    ['Engine', certificate.engine],
    hash('Training rows', hashes.train),
    hash('Network', hashes.network),
    hash('Ensemble', hashes.ensemble),
    hash('Schema', hashes.schema),
    hash('Architecture', hashes.architecture),
    hash('Run', hashes.run),
  ]);
  byId('partial').hidden = !certificate.partial;
  setText('partial', 'Partial certificate: nothing is promised to ' +
    `${grouped.format(certificate.rows - certificate.members)} of ${grouped.format(certificate.rows)} rows.`);
}

function showGuard({guard, traffic, api_keys: keys, time}) {
  fillList('guard', [
    ['Kind', guard.kind],
    ['Mechanism', guard.mechanism],
    ['Epsilon', `${short(guard.epsilon)} per query (effective: ${short(guard.effective_epsilon)})`],
    ['Memo', guard.memo],
    ['Input grid', guard.grid_bits > 0 ? `2^-${guard.grid_bits}` : 'none'],
  ]);
  fillList('server', [
    ['Time', time],
    ['Connections', `${grouped.format(traffic.connections)} open, ${grouped.format(traffic.refused)} refused`],
    ['In flight', grouped.format(traffic.in_flight)],
    ['Keys', keys > 0 ? grouped.format(keys) : 'none: anonymous'],
    ['Refused', `${grouped.format(traffic.keys_refused)} for their key, ` +
      `${grouped.format(traffic.rate_limited)} for their rate`],
    ['Ledger failures', grouped.format(traffic.ledger_failures)],
  ]);
}

function showAccounts(budget) {
  const accounts = budget === null ? [] : budget.accounts;
  byId('accounts').hidden = byId('accounts-title').hidden = accounts.length === 0;
  byId('accounts').tBodies[0].replaceChildren(...accounts.map(({id, spent, answers}) =>
    element('tr', {}, element('td', {}, id),
            element('td', {class: 'number'}, grouped.format(answers)),
            element('td', {class: 'number'}, short(spent)))));
}

function show(status) {
  showHealth(status);
  showTiles(status);
  showCharts(status.traffic);
  showPromise(status.promise);
  if (status.certificate === null) {
    showDeclared(status.guard);
  } else {
    showCertificate(status.certificate);
  }
  showGuard(status);
  showAccounts(status.budget);
}

// ---- polling -----------------------------------------------------------------------------------

function showStale(since) {
  document.body.classList.add('stale');
  byId('health').className = 'pill bad';
  setText('health', `no answer since ${since.toLocaleTimeString()}`);
}

let lastAnswer = new Date();

async function poll() {
  try {
    const response = await fetch('status.json', {cache: 'no-store', signal: AbortSignal.timeout(5000)});
    if (!response.ok) throw new Error(`status ${response.status}`);
    show(await response.json());
    document.body.classList.remove('stale');
    lastAnswer = new Date();
  } catch (error) {
    console.warn(error);
    showStale(lastAnswer);
  }
}

// A hidden page asks for nothing.
async function loop() {
  if (!document.hidden) await poll();
  setTimeout(loop, POLL_MS);
}

document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });
loop();
