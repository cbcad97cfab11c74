// Opens the operator console of a running server and checks what it shows.
//   node console_page.mjs PLAYWRIGHT CHROMIUM ADMIN_URL PUBLIC_URL PICTURES
import assert from 'node:assert/strict';
import {setTimeout as wait} from 'node:timers/promises';
import {checkReadable, launch, open as openUrl, run} from './page.mjs';

const [playwright, chromium, adminUrl, publicUrl, pictures] = process.argv.slice(2);
const browser = await launch(playwright, chromium);

async function open(how = {}) {
  const page = await openUrl(browser, adminUrl, {width: 1240, ...how});
  await page.waitForFunction(() => document.getElementById('health').textContent !== 'connecting');
  return page;
}

const text = (page, id) => page.locator(`#${id}`).textContent();
const status = async () => (await fetch(`${adminUrl}/status.json`)).json();

async function ask(rows) {
  const response = await fetch(`${publicUrl}/predict`, {method: 'POST',
    headers: {'Content-Type': 'application/json'}, body: JSON.stringify({input: rows})});
  assert.equal(response.status, 200);
}

async function traffic(seconds) {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end;) {
    await ask(Array.from({length: 2}, () => [Math.random(), Math.random()]));
  }
}

const checks = {
  async 'shows what the server says'() {
    const page = await open();
    await traffic(2.5);
    await page.waitForFunction(() => document.querySelectorAll('#requests-chart .series').length === 1);
    const now = await status();
    assert.equal(await text(page, 'health'), 'ready');
    assert.equal(await text(page, 'model'), now.model);
    await page.waitForFunction((wanted) =>
      document.getElementById('rate-detail').textContent.startsWith(wanted),
      `${now.traffic.requests.toLocaleString('en')} requests`);
    assert.notEqual(await text(page, 'p99'), '–');
    assert.match(await text(page, 'noised'), /%$/);
    assert.equal(await text(page, 'budget-unit'), 'epsilon left');
    assert.equal(await page.locator('#classes tr').count(), now.certificate.classes.length);
    assert.ok((await text(page, 'certificate')).includes(now.certificate.hashes.network));
    assert.ok((await text(page, 'guard')).includes('scalar'));
    assert.equal(await page.locator('#accounts tbody tr').count(), 1);
    const points = await page.locator('#requests-chart .series').getAttribute('points');
    const behind = now.traffic.seconds.at.length - points.split(' ').length;
    assert.ok(Math.abs(behind) <= 3, `a point for every second, ${behind} seconds behind`);
    assert.deepEqual(page.problems, [], 'no error, no violation of its own policy');
    const origins = page.requests.filter((to) => !to.startsWith('data:')).map((to) => new URL(to).origin);
    assert.deepEqual([...new Set(origins)], [new URL(adminUrl).origin], 'no request to elsewhere');
  },

  async 'goes on by itself'() {
    const page = await open();
    const before = await text(page, 'rate-detail');
    await ask([[0.5, 0.5]]);
    await page.waitForFunction((old) => document.getElementById('rate-detail').textContent !== old, before);
  },

  async 'shows values under the pointer'() {
    const page = await open();
    const box = await page.locator('#latency-chart').boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.locator('#tip').waitFor({state: 'visible'});
    assert.match(await text(page, 'tip'), /ago\nmedian .*\n99th percentile /);
    await page.mouse.move(0, 0);
    await page.locator('#tip').waitFor({state: 'hidden'});
  },

  async 'is readable in light and dark, on a desk and on a phone'() {
    const texts = ['.figure', '.quiet', 'h2', 'td', 'dt'].map((text) => [`main ${text}`, 'article']);
    await checkReadable(open, texts, 1240, `${pictures}/console`);
  },

  // What this server does not show by itself.
  async 'understands every state'() {
    const page = await open();
    const change = async (edit) => {
      const changed = await status();
      edit(changed);
      await page.unroute('**/status.json');
      await page.route('**/status.json', (route) => route.fulfill({json: changed}));
      await page.waitForResponse('**/status.json');
      await wait(100);
    };
    await change((now) => { now.draining = true; now.ready = false; now.note = 'the ledger is full'; });
    assert.equal(await text(page, 'health'), 'draining');
    assert.ok(await page.locator('#note').isVisible());
    assert.equal(await text(page, 'note'), 'the ledger is full');
    await change((now) => { now.certificate.classes[0].name = now.model = '<b>model</b>'; });
    assert.equal(await text(page, 'model'), '<b>model</b>', 'names are text, never markup');
    assert.equal(await page.locator('b').count(), 0);
    await change((now) => { now.certificate.partial = true; now.certificate.rows += 7; });
    assert.match(await text(page, 'partial'), /nothing is promised to 7 of/);
    assert.ok(await page.locator('#partial').isVisible());
    await change((now) => { now.certificate.classes[0].beta_upper = null; });
    assert.match(await text(page, 'classes'), /all noised/);
    await change((now) => { now.budget = null; now.guard.epsilon = 0; });
    assert.equal(await text(page, 'budget'), 'free');
    assert.ok(await page.locator('#accounts').isHidden());
    await change((now) => { now.budget.total = null; });
    assert.equal(await text(page, 'budget-unit'), 'epsilon spent');
    await change((now) => {
      for (const list of Object.values(now.traffic.seconds)) list.length = 0;
      now.traffic.rows = now.traffic.noised = 0;
    });
    assert.equal(await text(page, 'noised'), '–');
    assert.deepEqual(page.problems, []);
  },

  async 'says when the server is gone'() {
    const page = await open();
    await page.route('**/status.json', (route) => route.abort());
    await page.waitForFunction(() => document.body.classList.contains('stale'));
    assert.match(await text(page, 'health'), /^no answer since/);
    await page.unroute('**/status.json');
    await page.waitForFunction(() => document.getElementById('health').textContent === 'ready');
  },
};

await run('console', checks, browser);
