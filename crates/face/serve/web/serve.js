"use strict";
// Additions to pages that work without them: kinds of forms, line numbers and checks of texts, live jobs.

// Of a table of several kinds only the chosen one is shown.
for (const select of document.querySelectorAll("fieldset.kinds select")) {
  const branches = [...document.querySelectorAll(".branch")].filter((branch) => branch.dataset.of === select.name);
  if (!branches.length) continue;
  const show = () => {
    for (const branch of branches) {
      branch.hidden = branch.dataset.kind !== select.value;
      if (branch.tagName === "DETAILS") branch.open = !branch.hidden;
    }
  };
  select.addEventListener("change", show);
  select.form.addEventListener("reset", () => setTimeout(show));
  show();
}

// Line numbers, errors at their lines, and a check a moment after the last key.
const text = document.getElementById("text");
if (text) {
  const gutter = document.getElementById("gutter");
  const problems = document.getElementById("problems");
  let wrong = new Set();
  const number = () => {
    const lines = text.value.split("\n").length;
    const spans = Array.from({ length: lines }, (_, n) => {
      const span = document.createElement("span");
      span.textContent = n + 1;
      if (wrong.has(n + 1)) span.className = "bad";
      return span;
    });
    gutter.replaceChildren(...spans);
    gutter.scrollTop = text.scrollTop;
  };
  const list = (found) => {
    wrong = new Set(found.map((problem) => problem.line));
    problems.replaceChildren();
    if (found.length) {
      const box = document.createElement("div");
      box.className = "alert";
      const items = document.createElement("ul");
      for (const problem of found) {
        const item = document.createElement("li");
        const key = problem.key ? problem.key + ": " : "";
        if (problem.line) {
          const go = document.createElement("a");
          go.href = "#text";
          go.textContent = "line " + problem.line;
          go.addEventListener("click", (event) => { event.preventDefault(); jump(problem.line); });
          item.append(go, " ");
        }
        item.append(key + problem.message);
        items.append(item);
      }
      box.append(items);
      problems.append(box);
    }
    number();
  };
  const jump = (line) => {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    text.focus();
    text.setSelectionRange(start, start + lines[line - 1].length);
    text.scrollTop = (line - 5) * parseFloat(getComputedStyle(text).lineHeight);
  };
  let timer = 0;
  let asked = 0;
  const check = async () => {
    const mine = ++asked;
    const answer = await fetch("/api/v1/check", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text: text.value }),
    }).catch(() => null);
    if (answer && answer.ok && mine === asked) list((await answer.json()).problems);
  };
  text.addEventListener("input", () => { number(); clearTimeout(timer); timer = setTimeout(check, 400); });
  text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
  number();
  check();
}

// A running job: state, progress and finished runs as they come. The browser reconnects by itself and goes on after the
// last event; a reload shows the same from the database.
const live = document.getElementById("live");
if (live && live.dataset.job) {
  const show = (id, value) => { const node = document.getElementById(id); if (node && node.textContent !== value) node.textContent = value; };
  const source = new EventSource("/api/v1/jobs/" + live.dataset.job + "/stream?after=" + live.dataset.last);
  const moved = (event) => {
    const { finished, runs, share } = JSON.parse(event.data).content;
    show("runs", finished + " of " + runs);
    const bar = document.getElementById("progress");
    if (bar && share !== undefined) bar.value = share;
  };
  source.addEventListener("progress", moved);
  source.addEventListener("run", moved);
  source.addEventListener("state", (event) => {
    const state = JSON.parse(event.data).content.state;
    const word = document.querySelector("#state .state");
    // The form for changes of an emulation comes with its start.
    if (state === "running" && word && word.textContent === "queued" && document.getElementById("changes")) location.reload();
    if (word) { word.textContent = state; word.className = "state " + state; }
  });
  // Changes of an emulation, marked in its diagrams.
  const changes = document.getElementById("changes");
  source.addEventListener("set", (event) => {
    const { key, value, at } = JSON.parse(event.data).content;
    if (!changes) return;
    const item = document.createElement("li");
    item.dataset.at = at;
    const code = document.createElement("code");
    code.textContent = key + " = " + value;
    item.append(at.toFixed(1) + " s: ", code);
    changes.append(item);
  });
  // Diagrams of the present run, a canvas for each, with the last values in words below.
  const style = getComputedStyle(document.documentElement);
  const colours = Array.from({ length: 8 }, (_, n) => style.getPropertyValue("--c" + n).trim());
  const plots = document.getElementById("plots");
  let columns = [];
  let times = [];
  let values = [];
  let diagrams = [];
  const begin = (message) => {
    columns = message.columns;
    [times, values] = [[], columns.map(() => [])];
    plots.replaceChildren();
    const titles = [...new Set(columns.map((column) => column.diagram))].slice(0, 6);
    diagrams = titles.map((title) => {
      const members = columns.map((column, n) => n).filter((n) => columns[n].diagram === title).slice(0, 8);
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const name = document.createElement("b");
      name.textContent = title + (columns[members[0]].unit ? " (" + columns[members[0]].unit + ")" : "");
      const run = document.createElement("span");
      run.textContent = " " + message.run;
      caption.append(name, run);
      const canvas = document.createElement("canvas");
      canvas.className = "live";
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", title + " while the run lasts");
      const legend = document.createElement("ul");
      legend.className = "legend";
      const outputs = members.map((n, i) => {
        const item = document.createElement("li");
        const swatch = document.createElement("b");
        swatch.textContent = "\u25cf";
        swatch.className = "p" + (i % 8);
        const output = document.createElement("output");
        const alike = members.filter((other) => columns[other].name === columns[n].name).length > 1;
        const label = alike ? ": " + columns[n].label.toLowerCase() : "";
        item.append(swatch, " " + columns[n].name.replace(/^(flow|link)\./, "") + label + " ", output);
        legend.append(item);
        return output;
      });
      figure.append(caption, canvas, legend);
      plots.append(figure);
      return { members, canvas, outputs };
    });
  };
  const prefixed = (value) => {
    const size = Math.abs(value);
    const [factor, prefix] = size >= 1e9 ? [1e9, " G"] : size >= 1e6 ? [1e6, " M"] : size >= 1e3 ? [1e3, " k"] : [1, ""];
    return Number((value / factor).toPrecision(3)) + prefix;
  };
  const curve = (n) => {
    if (!columns[n].rate) return times.map((t, i) => [t, values[n][i]]);
    const points = [];
    const window = Math.max((times[times.length - 1] || 0) / 90, 1e-9);
    for (let i = 0, from = 0; i < times.length; i++) {
      if (times[i] - times[from] < window) continue;
      points.push([times[i], (values[n][i] - values[n][from]) / (times[i] - times[from]) * columns[n].factor]);
      from = i;
    }
    return points;
  };
  const draw = ({ members, canvas, outputs }) => {
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    const curves = members.map(curve);
    const most = Math.max(0, ...curves.flat().map((point) => point[1]).filter(Number.isFinite)) || 1;
    const end = times[times.length - 1] || 1;
    const [left, bottom, top] = [58, 22, 8];
    const x = (t) => left + (width - left - 8) * t / end;
    const y = (v) => height - bottom - (height - bottom - top) * v / most;
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = style.getPropertyValue("--soft");
    c.strokeStyle = style.getPropertyValue("--hair");
    for (let n = 0; n <= 4; n++) {
      const value = most * n / 4;
      c.textAlign = "right";
      c.fillText(prefixed(value), left - 6, y(value) + 4);
      c.beginPath(); c.moveTo(left, y(value)); c.lineTo(width - 8, y(value)); c.stroke();
      c.textAlign = n === 4 ? "right" : "center";
      c.fillText(Number((end * n / 4).toPrecision(3)) + (n === 4 ? " s" : ""), x(end * n / 4), height - 5);
    }
    c.strokeStyle = style.getPropertyValue("--soft");
    c.setLineDash([2, 3]);
    for (const item of changes ? changes.children : []) {
      const at = x(Number(item.dataset.at));
      if (at > width - 8) continue;
      c.beginPath(); c.moveTo(at, top); c.lineTo(at, height - bottom); c.stroke();
    }
    c.setLineDash([]);
    curves.forEach((points, i) => {
      c.strokeStyle = colours[i % 8];
      c.setLineDash(i % 2 ? [6, 3] : []);
      c.lineWidth = 1.6;
      c.beginPath();
      let joined = false;
      for (const [t, v] of points) {
        if (v === null || !Number.isFinite(v)) { joined = false; continue; }
        if (joined) c.lineTo(x(t), y(v)); else c.moveTo(x(t), y(v));
        joined = true;
      }
      c.stroke();
      const last = points.length && points[points.length - 1][1];
      // Connections that are not there yet have no values.
      outputs[i].parentElement.hidden = !points.some((point) => typeof point[1] === "number");
      outputs[i].textContent = typeof last === "number" ? prefixed(last) : "";
    });
  };
  let waiting = false;
  source.addEventListener("live", (event) => {
    const message = JSON.parse(event.data);
    if (message.event === "columns") { begin(message); return; }
    times.push(...message.t);
    message.v.forEach((one, n) => values[n] && values[n].push(...one));
    if (times.length > 6000) {
      // Every second pair: the server has all of them.
      const keep = (_, i) => i % 4 < 2;
      times = times.filter(keep);
      values = values.map((one) => one.filter(keep));
    }
    if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; diagrams.forEach(draw); }); }
  });
  source.addEventListener("over", () => { source.close(); location.reload(); });
}

// Packets of a running job's captures: the last ones, while their place is open. All text is of strangers, and only text.
const packets = document.getElementById("packets");
if (packets) {
  const [choice, pause, told] = ["capture", "pause", "captured"].map((id) => document.getElementById(id));
  const place = document.getElementById("packet-table");
  const body = place.querySelector("tbody");
  const most = 100;
  let source = null;
  let held = [];
  let paused = false;
  const cells = (packet) => [packet.number, packet.time.toFixed(6), packet.source, packet.destination, packet.protocol, packet.length, packet.info];
  const row = (packet) => {
    const line = document.createElement("tr");
    cells(packet).forEach((value, n) => {
      const cell = document.createElement("td");
      if (n < 2 || n === 5) cell.className = "num";
      cell.textContent = value;
      line.append(cell);
    });
    return line;
  };
  const add = (all) => {
    const last = all.slice(-most);
    while (body.rows.length && body.rows.length + last.length > most) body.deleteRow(0);
    const isAtEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
    body.append(...last.map(row));
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  };
  const say = (words) => { if (told.textContent !== words) told.textContent = words; };
  const close = () => { if (source) source.close(); source = null; };
  const open = () => {
    close();
    body.replaceChildren();
    held = [];
    let capture = "";
    say("Waiting for a capture.");
    source = new EventSource("/api/v1/jobs/" + packets.dataset.job + "/packets/stream?capture=" + encodeURIComponent(choice.value));
    source.addEventListener("packets", (event) => {
      const news = JSON.parse(event.data);
      const known = [...choice.options].map((option) => option.value);
      for (const name of news.captures) if (!known.includes(name)) choice.append(new Option(name, name));
      if (!news.capture) {
        if (!news.captures.length) say("No capture yet. A scenario asks for some with probe.capture.");
        return;
      }
      if (news.capture !== capture || (news.packets.length && news.packets[0].number === 1)) body.replaceChildren();
      capture = news.capture;
      [place.hidden, pause.hidden] = [false, false];
      if (paused) held = held.concat(news.packets).slice(-most); else add(news.packets);
      packets.dataset.total = news.total;
      say("The last packets of " + capture + ".");
    });
    source.addEventListener("over", close);
  };
  packets.addEventListener("toggle", () => { if (packets.open) open(); else close(); });
  choice.addEventListener("change", open);
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    if (!paused) { add(held); held = []; }
  });
}

// Rows of a query as they reach Earth, the latest first. The motes that sent the last ones are marked.
const field = document.getElementById("field");
if (field && field.dataset.job) {
  const [table, told, pause] = ["rows", "rows-count", "rows-pause"].map((id) => document.getElementById(id));
  const most = 100;
  let [paused, isFirst] = [false, true];
  const source = new EventSource("/api/v1/jobs/" + field.dataset.job + "/rows/stream?flow=" + encodeURIComponent(field.dataset.flow));
  source.addEventListener("rows", (event) => {
    const news = JSON.parse(event.data);
    // The query, or its map: the server draws both.
    const isMapped = news.query && news.query.motes.length > 0;
    if (news.flow && (!table || (isMapped && field.dataset.mapped !== "true"))) { location.reload(); return; }
    if (!table || !news.flow) return;
    // The first message has what the page has.
    if (isFirst) { isFirst = false; pause.hidden = false; return; }
    told.textContent = news.total + " rows, of which the last " + most + " are shown.";
    if (paused) return;
    const body = table.querySelector("tbody");
    for (const row of news.rows.slice(-most)) {
      const line = document.createElement("tr");
      const values = [row.received.toFixed(3), row.sampled.toFixed(3), row.epoch, row.mote || "base", ...row.values.map((value) => Number(value.toPrecision(4)))];
      for (const value of values) {
        const cell = document.createElement("td");
        cell.className = "num";
        cell.textContent = value;
        line.append(cell);
      }
      body.prepend(line);
    }
    while (body.rows.length > most) body.deleteRow(-1);
    for (const lit of document.querySelectorAll(".field a.lit")) lit.classList.remove("lit");
    for (const row of news.rows) {
      const mote = document.querySelector('.field a[data-mote="' + Number(row.mote) + '"]');
      if (mote) mote.classList.add("lit");
    }
  });
  if (pause) pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
  });
  source.addEventListener("over", () => { source.close(); if (field.dataset.mapped !== "true") location.reload(); });
}

// All plots of a page have one axis of time. What is dragged over in one becomes the window of all; the form does the same by typing.
const zoom = document.getElementById("zoom");
for (const image of zoom ? document.querySelectorAll("img.picture[data-x]") : []) {
  const [left, right, low, high] = image.dataset.x.split(" ").map(Number);
  const width = 560;
  const figure = image.parentElement;
  const mark = document.createElement("div");
  mark.className = "selection";
  mark.hidden = true;
  figure.append(mark);
  const place = (event) => {
    const box = image.getBoundingClientRect();
    return Math.min(right, Math.max(left, (event.clientX - box.left) / box.width * width));
  };
  let from = null;
  image.draggable = false;
  image.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = place(event);
    image.setPointerCapture(event.pointerId);
  });
  image.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const [a, b] = [from, place(event)].sort((x, y) => x - y);
    mark.hidden = b - a < 4;
    mark.style.left = 100 * a / width + "%";
    mark.style.width = 100 * (b - a) / width + "%";
    mark.style.height = image.clientHeight + "px";
  });
  image.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const [a, b] = [from, place(event)].sort((x, y) => x - y);
    [from, mark.hidden] = [null, true];
    if (b - a < 8) return;
    const time = (x) => String(Number((low + (x - left) / (right - left) * (high - low)).toPrecision(4)));
    [zoom.elements.from.value, zoom.elements.until.value] = [time(a), time(b)];
    zoom.requestSubmit(zoom.querySelector("button"));
  });
  image.addEventListener("pointercancel", () => { [from, mark.hidden] = [null, true]; });
}
