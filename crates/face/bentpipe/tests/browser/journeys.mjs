// Journeys through the pages in a real browser. Arguments: address, password, folder for screenshots (optional).
// Every error on a page's console fails the test, so that the policy of contents is tested with it.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";

const [address, password, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const path = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox"] });
const errors = [];

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  // The browser tells of a conflict some time after its page is there; the journeys look for that page themselves.
  page.on("console", (message) => { if (message.type() === "error" && !/status of 409/.test(message.text())) errors.push(page.url() + ": " + message.text()); });
  page.on("pageerror", (error) => errors.push(page.url() + ": " + error));
  page.on("dialog", (dialog) => { errors.push("dialog: " + dialog.message()); dialog.dismiss(); });
  return page;
}

async function accessible(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  await page.evaluate(axe);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const found = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), tags);
  const told = found.violations.map((one) => one.id + ": " + one.nodes.map((node) => node.html.slice(0, 160)).join(" | "));
  assert.deepEqual(told, [], page.url());
}

async function logIn(page) {
  await page.goto(address + "/login");
  await page.getByLabel("Name").fill("boss");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(address + "/");
}

let shots = 0;
async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${String(++shots).padStart(2, "0")}-${name}.png`, fullPage: true });
}

// Five steps to a report: router 1 gets RED with every parameter of figure 16.
const page = await open();
await page.goto(address + "/");
assert.equal(new URL(page.url()).pathname, "/login", "a page without a session leads to the login");
await accessible(page);
await logIn(page);
await page.getByRole("link", { name: "First look" }).first().click();
await page.getByRole("button", { name: "Copy" }).click();
await page.waitForSelector("svg.network");
const scenario = new URL(page.url()).pathname.split("/")[2];
const link = page.locator("svg.network a[href*='path=link']").first();
await link.focus();
await page.keyboard.press("Enter");
await page.waitForURL(/form\?path=link/);
const kind = page.locator("select[name$='.queue.kind']").first();
await kind.selectOption("red");
const field = (name) => page.locator(`[name$='.queue.${name}@red']`).first();
const values = { limit: "75 kB", min: "7500 B", max: "22500 B", probability: "0.1", average_packet: "1500 B", burst: "12", bandwidth: "10 Mbit/s" };
for (const [name, value] of Object.entries(values)) await field(name).fill(value);
await page.getByRole("button", { name: "Apply" }).click();
await page.waitForLoadState();
assert.equal(await field("min").inputValue(), "7500 B");
assert.equal(await page.getByRole("alert").count(), 0, "the scenario has no errors");
// A preset takes the settings to another link.
await page.getByText("Presets").click();
await page.getByLabel("Save the present settings as").fill("figure 16");
await page.getByRole("button", { name: "Save" }).click();
await page.waitForLoadState();
await page.goto(page.url().replace("link.satellite", "link.home"));
await page.getByText("Presets").click();
await page.getByRole("button", { name: "Load" }).click();
await page.waitForLoadState();
assert.equal(await field("burst").inputValue(), "12");
await page.goBack();
await page.getByRole("link", { name: "Connections" }).click();
await page.getByRole("link", { name: "Test", exact: true }).click();
await page.getByRole("link", { name: "Go on to launch" }).click();
await page.getByLabel("Simulated time").first().fill("30 s");
await page.getByRole("button", { name: "Launch" }).click();
await page.waitForURL(/jobs\/\d+$/);
const job = page.url();
// The page follows the job to its end by itself.
await page.getByRole("link", { name: "Open the report" }).waitFor({ timeout: 60000 });
await page.getByRole("link", { name: "Open the report" }).click();
await page.waitForSelector("h1");
assert.ok(await page.locator("svg.plot").count() > 0);
await page.goBack();

// A note and tags, and the testbed reserved by typed times.
await page.getByText("Note and tags", { exact: true }).click();
await page.getByLabel("Note", { exact: true }).fill("RED as in figure 16");
await page.getByLabel("Tags, separated by spaces").fill("red figure-16");
await page.getByRole("button", { name: "Save note and tags" }).click();
await page.goto(address + "/jobs?search=figure-16");
assert.equal(await page.locator("tbody tr").count(), 1);
await page.getByRole("link", { name: "Reservations" }).click();
const tomorrow = (hour) => new Date(Date.now() + 86400e3).toISOString().slice(0, 11) + hour;
await page.getByLabel("From (UTC)").fill(tomorrow("10:00"));
await page.getByLabel("To (UTC)").fill(tomorrow("12:30"));
await page.getByLabel("Purpose").fill("Campaign with RED");
await page.getByRole("button", { name: "Reserve" }).click();
await page.getByRole("cell", { name: "Campaign with RED", exact: true }).waitFor();

// An emulation is changed while it runs, and marks the change in its plots.
if (process.env.BENTPIPE_EMULATES) {
  await page.goto(address + "/");
  await page.getByRole("link", { name: "Geostationary satellite", exact: true }).first().click();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.waitForSelector("svg.network");
  await page.goto(page.url().replace(/system.*/, "launch"));
  await page.getByLabel("Simulated time").first().fill("12 s");
  await page.getByRole("button", { name: "Emulate in real time" }).click();
  await page.waitForURL(/jobs\/\d+$/);
  await page.locator("canvas.live").first().waitFor({ timeout: 60000 });
  await page.waitForTimeout(3000);
  await page.getByLabel("Key").fill("link.satellite.delay");
  await page.getByLabel("Value").fill("100 ms");
  await page.getByRole("button", { name: "Set while it runs" }).click();
  await page.locator("#changes li").waitFor();
  assert.match(await page.locator("#changes").innerText(), /link\.satellite\.delay = 100 ms/);
  await page.locator("canvas.live").first().waitFor();
  await page.waitForTimeout(3000);
  await accessible(page);
  await picture(page, "emulation");
  await page.getByRole("link", { name: "Open the report" }).waitFor({ timeout: 60000 });
  assert.match(await page.locator("main").innerText(), /programs\/download\.json/);
}

// Text: an error is shown at its line while it is typed.
await page.goto(`${address}/scenarios/${scenario}/text`);
const text = page.locator("#text");
await text.fill((await text.inputValue()).replace("duration", "durration"));
await page.locator("#problems .alert li").first().waitFor();
assert.match(await page.locator("#problems").innerText(), /did you mean/);
await page.getByRole("button", { name: "Check only" }).click();
await page.waitForLoadState();
assert.match(await page.locator(".toast").innerText(), /Not saved/);

// The same without scripts.
const plain = await open({ javaScriptEnabled: false });
await logIn(plain);
await plain.goto(`${address}/scenarios/${scenario}/form?path=`);
await plain.locator("[name='duration']").fill("60 s");
await plain.getByRole("button", { name: "Apply" }).click();
await plain.waitForLoadState();
assert.equal(await plain.locator("[name='duration']").inputValue(), "60 s");
await plain.goto(`${address}/scenarios/${scenario}/launch`);
await plain.getByRole("button", { name: "Launch" }).click();
await plain.waitForURL(/jobs\/\d+$/);

// Enter in a field of the search starts a search.
await plain.goto(`${address}/scenarios/${scenario}/launch`);
await plain.getByText("Search how many fit").click();
await plain.getByLabel("Conditions on measures").fill("flow.*.goodput >= 1 bit/s");
await plain.getByLabel("Key and its values").fill("duration=['25 s', '30 s']");
await plain.getByLabel("Key and its values").press("Enter");
await plain.waitForURL(/jobs\/\d+$/);
assert.match(await plain.locator("h1").innerText(), /^Search #/);

// A job goes out as a zip file, comes in again, and is run again with equal fingerprints.
await page.goto(job.startsWith("http") ? job : address + job);
const [archive] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download all as a zip file" }).click()]);
await page.goto(`${address}/jobs`);
await page.getByText("Import a job").click();
await page.locator("input[type=file]").setInputFiles(await archive.path());
await page.getByRole("button", { name: "Import" }).click();
await page.waitForURL(/jobs\/\d+$/);
const imported = page.url();
assert.match(await page.locator("main").innerText(), /Imported: its results are as its archive states them/);
await page.getByRole("button", { name: /^Run again/ }).click();
await page.waitForURL((url) => /jobs\/\d+$/.test(url.href) && url.href !== imported);
await page.getByText("Equal fingerprints").waitFor({ timeout: 60000 });
// Both have plots, which are overlaid on the same axes.
await page.reload();
assert.ok(await page.locator("img.picture").count() > 1);
await page.goto(`${address}/compare?job=${imported.split("/").pop()}&job=${job.split("/").pop()}`);
await page.getByRole("button", { name: "Show with plots" }).click();
await page.waitForLoadState();
assert.ok(await page.locator("img.picture").evaluateAll((all) => all.length > 1 && all.every((one) => one.complete && one.naturalWidth > 100)));

// What is dragged over in one plot is the time of all; the browser goes back one step, and each plot is a table too.
const plotted = page.locator("img.picture").first();
await plotted.scrollIntoViewIfNeeded();
const box = await plotted.boundingBox();
await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.6);
await page.mouse.down();
await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.6, { steps: 4 });
await page.mouse.up();
await page.waitForURL(/from=[\d.]+&until=[\d.]+/, { timeout: 5000 });
const ranges = await page.locator("img.picture").evaluateAll((all) => all.map((one) => one.dataset.x.split(" ").slice(2).join(" ")));
assert.ok(ranges.length > 1 && ranges.every((one) => one === ranges[0]), `${ranges}`);
assert.match(ranges[0], /^[1-9]/, "it begins after the start");
await page.getByText(/^Table: /).first().click();
assert.ok(await page.getByRole("region", { name: /^Table: / }).first().locator("tbody tr").count() > 10);
await picture(page, "zoomed");
await page.goBack();
assert.doesNotMatch(page.url(), /from=/);

// Packets of a capture and rows of a query come while their jobs run.
const start = (name, text) => page.evaluate(async ([name, text]) => {
  const send = async (path, body) => (await fetch("/api/v1" + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();
  const scenario = await send("/scenarios", { name, text });
  return (await send("/jobs", { scenario: scenario.id })).id;
}, [name, text]);
const captured = await start("Captured", `
title = "Small packets"
duration = "1000 h"
[node.a]
[node.b]
[link.sky]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "250 ms"
[flow.voice]
from = "a"
to = "b"
traffic = { kind = "udp", payload = "72 B", pattern = { kind = "constant", interval = "40 ms" } }
[probe]
interval = "1 s"
capture = ["b:sky"]`);
await page.goto(`${address}/jobs/${captured}`);
await page.locator("#state .running").waitFor({ timeout: 60000 });
await page.locator("#packets summary").focus();
await page.keyboard.press("Enter");
await page.locator("#packet-table tbody tr").nth(20).waitFor({ timeout: 60000 });
const seen = Number(await page.locator("#packets").getAttribute("data-total"));
await page.waitForFunction((seen) => Number(document.getElementById("packets").dataset.total) > seen, seen);
assert.match(await page.locator("#packet-table tbody tr").last().innerText(), /UDP/);
await page.getByRole("button", { name: "Pause" }).press("Enter");
await page.getByRole("button", { name: "Go on" }).waitFor();
await accessible(page);
await picture(page, "packets");
await page.goto(`${address}/jobs/${captured}/packets`);
assert.match(await page.locator("main").innerText(), /b-sky\.pcap: the last packets of \d+, which is being written/);
await page.goto(`${address}/jobs/${captured}`);
await page.getByRole("button", { name: /^Cancel/ }).click();
await page.locator("#state .cancelled").waitFor({ timeout: 60000 });
const mars = readFileSync(process.env.BENTPIPE_SENSOR_FIELD, "utf8");
const long = mars.replace("FOR 1 h", "FOR 300 d").replace('duration = "2 h"', 'duration = "300 d"');
const asked = await start("Long query", long + '\n[probe]\ninterval = "60 s"\n');
await page.goto(`${address}/jobs/${asked}/field`);
await page.locator("#rows tbody tr").nth(3).waitFor({ timeout: 60000 });
await page.waitForFunction(() => /^\d+ rows, of which/.test(document.getElementById("rows-count").textContent));
await page.locator("svg.field a[data-mote='9']").focus();
await page.keyboard.press("Enter");
await page.waitForURL(/mote=9#mote$/);
assert.match(await page.locator("#mote").innerText(), /Mote 9[^]*Remote stream to[^]*sample light, sound every 30 s/);
await accessible(page);
await picture(page, "query");
await page.goto(`${address}/jobs/${asked}`);
await page.getByRole("button", { name: /^Cancel/ }).click();
await page.locator("#state .cancelled").waitFor({ timeout: 60000 });
const answered = await start("Query", mars);
await page.goto(`${address}/jobs/${answered}`);
await page.getByRole("link", { name: /^Query to a sensor field/ }).click({ timeout: 60000 });
assert.match(await page.locator("main").innerText(), /SELECT avg\(light\)[^]*merge the partial aggregates[^]*120 rows/);

// Two people change a scenario: the later one is told, keeps the text, and sees what the other changed.
await page.goto(`${address}/scenarios/${scenario}/text`);
const mine = await open();
await logIn(mine);
await mine.goto(`${address}/scenarios/${scenario}/text`);
for (const [one, title] of [[page, "first"], [mine, "second"]]) {
  const edited = await one.locator("#text").inputValue();
  await one.locator("#text").fill(edited.replace(/^title = .*/m, `title = "${title}"`));
  await one.getByRole("button", { name: "Save" }).click();
  await one.waitForURL(/save$/);
}
assert.match(await mine.getByRole("alert").innerText(), /Conflict: not saved/);
assert.match(await mine.locator("#text").inputValue(), /title = "second"/);
await accessible(mine);
await mine.getByRole("link", { name: "what it changed" }).click();
await mine.locator(".diff ins").first().waitFor();
// A refused form leads back to its page.
await mine.goto(`${address}/reservations`);
await mine.getByLabel("From (UTC)").fill(tomorrow("11:00"));
await mine.getByLabel("To (UTC)").fill(tomorrow("11:30"));
await mine.getByLabel("Purpose").fill("Too late");
await mine.getByRole("button", { name: "Reserve" }).click();
await mine.getByRole("link", { name: "Back to the page before" }).click();
await mine.waitForURL(/reservations$/);
await mine.context().close();

// All pages: no findings of axe, no scroll sideways at 320 px, in both schemes.
const path_of_link = await page.evaluate(async (id) => (await (await fetch(`/scenarios/${id}/system`)).text()).match(/form\?path=link[^"]*/)[0], scenario);
const all = ["/", "/jobs", "/studies", "/files", "/reservations", "/sites", "/account", "/users", "/audit", new URL(job).pathname, new URL(job).pathname + "/report", new URL(imported).pathname, `/compare?job=${job.split("/").pop()}&plots=yes`, `/jobs/${answered}/field?mote=1`, `/jobs/${answered}/packets`, `/jobs/remove?job=${answered}`,
  ...["system", "connections", "test", "launch", "report", "text", "history", path_of_link, "form?path="].map((step) => `/scenarios/${scenario}/${step}`)];
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 320]) {
    const page = await open({ colorScheme, viewport: { width, height: 800 } });
    await logIn(page);
    for (const one of all) {
      await page.goto(address + one);
      await accessible(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${one} is ${wide} px wide at ${width}`);
      await picture(page, `${one.replace(/[^a-z0-9]+/g, "-")}-${colorScheme}-${width}`);
    }
    await page.context().close();
  }
}
await browser.close();
assert.deepEqual(errors, []);
console.log("journeys done");
