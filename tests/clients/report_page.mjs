// Opens a report and checks what it shows.
//   node report_page.mjs PLAYWRIGHT CHROMIUM REPORT PICTURES
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';
import {checkReadable, launch, open as openUrl, run} from './page.mjs';

const [playwright, chromium, report, pictures] = process.argv.slice(2);
const url = pathToFileURL(report).href;
const browser = await launch(playwright, chromium);
const open = (how = {}) => openUrl(browser, url, {width: 1120, ...how});

const checks = {
  async 'needs nothing but itself'() {
    const page = await open();
    assert.deepEqual(page.problems, []);
    assert.deepEqual(page.requests, [url]);
    assert.equal(await page.locator('script').count(), 0);
  },

  async 'has every section, and its charts have marks'() {
    const page = await open();
    const headings = await page.locator('h2').allTextContents();
    const secret = (title) => `${title} do not publish`;
    assert.deepEqual(headings, ['Two promises, side by side', secret('What is certified'),
      'What privacy costs', secret('Confidence of every test row'), secret('The plane of inputs'),
      secret('Bounds over time'), secret('Rows that matter most'), secret('Attacks'),
      'Where it comes from']);
    assert.equal(await page.locator('.trio figure').count(), 6,
      'three noised sets side by side, and a panel for each guard');
    for (const mark of ['.dot.m-scalar', '.dot.m-exact', '.points', '.beta', '.line.upper',
      '.lm-leak', '.lm-noised']) {
      assert.ok(await page.locator(mark).count() > 0, mark);
    }
    assert.equal(await page.locator('p.missing').count(), 0);
  },

  async 'draws inside its frames and writes no text over another'() {
    const page = await open();
    const problems = await page.evaluate(() => {
      const found = [];
      for (const svg of document.querySelectorAll('svg.chart')) {
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll('text')].map((text) =>
          ({text: text.textContent, box: text.getBoundingClientRect()}));
        for (const {text, box} of texts) {
          if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
              box.top < frame.top - 1 || box.bottom > frame.bottom + 1) found.push(`outside: ${text}`);
        }
        texts.forEach((a, k) => texts.slice(k + 1).forEach((b) => {
          const over = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
          const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
          if (over > 2 && high > 4) found.push(`'${a.text}' over '${b.text}'`);
        }));
      }
      return found;
    });
    assert.deepEqual(problems, []);
  },

  async 'is readable in light and dark, on a desk and on a phone'() {
    const inCards = ['td', 'td.loud', 'thead th', '.legend'].map((text) => [text, '.card']);
    const inCharts = ['.tick', '.name'].map((text) => [`.chart ${text}`, '.card', 'fill']);
    const onPage = ['h2', '.quiet', '.lede'].map((text) => [text, 'body']);
    await checkReadable(open, [...inCards, ...inCharts, ...onPage], 1120, `${pictures}/report`);
  },

  async 'prints in light colours even from a dark screen'() {
    const page = await open({scheme: 'dark'});
    await page.emulateMedia({media: 'print', colorScheme: 'dark'});
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(ground, 'rgb(255, 255, 255)');
    const text = await page.evaluate(() => getComputedStyle(document.body).color);
    assert.equal(text, 'rgb(28, 36, 48)');
  },
};

await run('report', checks, browser);
