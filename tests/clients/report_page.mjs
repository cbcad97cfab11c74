// Opens a report and checks what it shows.
//   node report_page.mjs PLAYWRIGHT CHROMIUM REPORT PICTURES
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';

const [playwright, chromium, report, pictures] = process.argv.slice(2);
const {chromium: browserType} = await import(`${playwright}/index.mjs`);
const url = pathToFileURL(report).href;

// As root, in a container, Chromium's own sandbox does not start; the page is ours.
const browser = await browserType.launch({executablePath: chromium, args: ['--no-sandbox']});

// A page that notes everything it complains about or asks for.
async function open({scheme = 'light', width = 1120, height = 1000} = {}) {
  const context = await browser.newContext({colorScheme: scheme, viewport: {width, height}});
  const page = await context.newPage();
  page.problems = [];
  page.requests = [];
  page.on('console', (message) => page.problems.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => page.problems.push(error.message));
  page.on('request', (request) => page.requests.push(request.url()));
  await page.goto(url);
  return page;
}

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
    assert.deepEqual(headings, ['What is certified', 'What privacy costs',
      'Confidence of every test row', 'The plane of inputs', 'Bounds over time',
      'Rows that matter most', 'Attacks', 'Where it comes from']);
    assert.equal(await page.locator('.trio figure').count(), 3, 'a panel for each guard');
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
    const grounds = {};
    for (const scheme of ['light', 'dark']) {
      for (const [name, width] of [['desk', 1120], ['phone', 380]]) {
        const page = await open({scheme, width});
        const {overflow, contrast, ground} = await page.evaluate(() => {
          const luminance = (color) => {
            const [r, g, b] = color.match(/[\d.]+/g).map(Number).map((value) => {
              const share = value / 255;
              return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          const style = (selector) => getComputedStyle(document.querySelector(selector));
          const card = luminance(style('.card').backgroundColor);
          const page = luminance(style('body').backgroundColor);
          return {
            overflow: document.documentElement.scrollWidth - window.innerWidth,
            contrast: [...['td', 'td.loud', 'thead th', '.legend'].map((selector) =>
              [selector, ratio(card, luminance(style(selector).color))]),
            ...['.tick', '.name'].map((selector) =>
              [selector, ratio(card, luminance(style(`.chart ${selector}`).fill))]),
            ...['h2', '.quiet', '.lede'].map((selector) =>
              [selector, ratio(page, luminance(style(selector).color))])],
            ground: style('body').backgroundColor,
          };
        });
        assert.equal(overflow, 0, `${scheme} ${name}: no sideways scrolling`);
        for (const [what, one] of contrast) {
          assert.ok(one >= 4.5, `${scheme} ${name}: contrast of ${what} is ${one}`);
        }
        grounds[`${scheme}-${name}`] = ground;
        await page.screenshot({path: `${pictures}/report-${scheme}-${name}.png`, fullPage: true});
      }
    }
    assert.notEqual(grounds['light-desk'], grounds['dark-desk']);
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

try {
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(`report: ${name}`);
  }
} finally {
  await browser.close();
}
