// What the checks of every page share: a browser, pages that note what they do, contrasts.
import assert from 'node:assert/strict';

export async function launch(playwright, chromium) {
  const {chromium: browserType} = await import(`${playwright}/index.mjs`);
  // As root, in a container, Chromium's own sandbox does not start; the page is ours.
  return browserType.launch({executablePath: chromium, args: ['--no-sandbox']});
}

// A page that notes everything it complains about or asks for.
export async function open(browser, url, {scheme = 'light', width, height = 1000}) {
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

// Light and dark, on a desk and on a phone: nothing to scroll sideways, and every text of
// `texts` ([selector, what it stands on, its colour's property]) stands out. Leaves pictures.
export async function checkReadable(openPage, texts, desk, pictures) {
  const grounds = {};
  for (const scheme of ['light', 'dark']) {
    for (const [name, width] of [['desk', desk], ['phone', 380]]) {
      const page = await openPage({scheme, width});
      // A busy machine may show the page before its data are there.
      for (const selector of new Set(texts.flatMap(([text, under]) => [text, under]))) {
        await page.waitForSelector(selector, {state: 'attached'});
      }
      const {overflow, contrasts, ground} = await page.evaluate((texts) => {
        const luminance = (color) => {
          const [r, g, b] = color.match(/[\d.]+/g).map(Number).map((value) => {
            const share = value / 255;
            return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        return {
          overflow: document.documentElement.scrollWidth - window.innerWidth,
          contrasts: texts.map(([selector, under, property = 'color']) => [selector,
            ratio(luminance(style(under).backgroundColor), luminance(style(selector)[property]))]),
          ground: style('body').backgroundColor,
        };
      }, texts);
      assert.equal(overflow, 0, `${scheme} ${name}: no sideways scrolling`);
      for (const [what, one] of contrasts) {
        assert.ok(one >= 4.5, `${scheme} ${name}: contrast of ${what} is ${one}`);
      }
      grounds[`${scheme}-${name}`] = ground;
      await page.screenshot({path: `${pictures}-${scheme}-${name}.png`, fullPage: true});
    }
  }
  assert.notEqual(grounds['light-desk'], grounds['dark-desk']);
}

export async function run(name, checks, browser) {
  try {
    for (const [what, check] of Object.entries(checks)) {
      await check();
      console.log(`${name}: ${what}`);
    }
  } finally {
    await browser.close();
  }
}
