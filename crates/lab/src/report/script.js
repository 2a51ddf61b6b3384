// Shows the values of a plot's curves where the pointer is. The page is complete without it.
for (const svg of document.querySelectorAll("svg.plot[data-x]")) {
  const axis = name => svg.dataset[name].split(" ").map(Number);
  const [left, right, xLow, xHigh, xLog] = axis("x"), [bottom, top, yLow, yHigh, yLog] = axis("y");
  const value = (at, from, to, low, high, log) => {
    const share = (at - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const points = path => [...path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(m => [+m[1], +m[2]]);
  const curves = [...svg.querySelectorAll("path[data-curve]")].map(points);
  const entries = svg.parentElement.querySelectorAll(".legend li");
  const outputs = [...entries].map(li => li.appendChild(document.createElement("output")));
  const cross = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  cross.setAttribute("class", "cross");
  const at = svg.parentElement.querySelector("figcaption").appendChild(document.createElement("span"));
  const text = v => Number.isFinite(v) ? String(+v.toPrecision(4)) : "";
  const hide = () => { cross.setAttribute("d", ""); at.textContent = ""; outputs.forEach(o => o.textContent = ""); };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    if (x < left || x > right) return hide();
    cross.setAttribute("d", `M${x.toFixed(1)} ${top}V${bottom}`);
    at.textContent = ` ${svg.dataset.xname}: ${text(value(x, left, right, xLow, xHigh, xLog))}`;
    curves.forEach((curve, i) => {
      let best = null;
      for (const p of curve) if (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
      if (best && outputs[i]) outputs[i].textContent = text(value(best[1], bottom, top, yLow, yHigh, yLog));
    });
  });
}
