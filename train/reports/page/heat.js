// Heat map of layers and normalizers: a row for each site, a column for each validation.

const kQuantities = {
  greatest_variance: 'Greatest running variance over channels',
  least_variance: 'Least running variance over channels',
  am_over_gm: 'AM / GM of the window of mean squares',
  skips: 'Skips since the beginning',
  gradient_norm: 'Gradient norm by layer',
};

// viridis, which has equal steps in lightness and is readable by the colour-blind.
const kStops = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37]
];

function heatColour(t) {
  const at = Math.min(Math.max(t, 0), 1) * (kStops.length - 1), below = Math.min(Math.floor(at), kStops.length - 2);
  return `rgb(${kStops[below].map((c, i) => Math.round(c + (at - below) * (kStops[below + 1][i] - c))).join(' ')})`;
}

// Compares by the order of the forward pass: the encoder first, and layer 2 before layer 10.
function bySite(a, b) {
  const rank = site => (site.startsWith('encoder') ? 0 : 1);
  return rank(a) - rank(b) || a.localeCompare(b, 'en', {numeric: true});
}

// Returns quantity -> site -> Map of step -> value for a run. Sites of normalizers stay in the order of the log.
function sitesOf(run) {
  const quantities = {};
  const add = (quantity, site, step, value) =>
      ((quantities[quantity] ??= {})[site] ??= new Map()).set(step, isNumber(value) ? value : null);
  for (const event of eventsOf(run, 'layers')) {
    for (const [site, values] of Object.entries(event.normalizers))
      for (const [key, value] of Object.entries(values))
        if (key !== 'iterations') add(key, site, event.step, value);
    for (const site of Object.keys(event.gradient_norms).sort(bySite))
      add('gradient_norm', site, event.step, event.gradient_norms[site]);
  }
  return quantities;
}

const positive = value => isNumber(value) && value > 0;
const valuesOf = sites => Object.values(sites).flatMap(values => [...values.values()]);

// Returns quantities with a value to colour in any run; skips are left out if nothing was skipped.
function quantitiesIn(all) {
  const keys = [...new Set(all.flatMap(run => Object.keys(run)))].filter(
      key => all.some(run => run[key] && valuesOf(run[key]).some(positive)));
  const known = Object.keys(kQuantities);
  return [...known.filter(key => keys.includes(key)), ...keys.filter(key => !known.includes(key))];
}

const titleOf = quantity => kQuantities[quantity] || quantity;

function heatTable(sites, fraction, {onHover, onChoose}) {
  const steps = [...new Set(Object.values(sites).flatMap(values => [...values.keys()]))].sort((a, b) => a - b);
  const every = Math.ceil(steps.length / 4);
  const cell = (site, step) => {
    const value = sites[site].get(step), text = `${site}, update ${step}: ${significant(value)}`;
    const colour = positive(value) ? `background: ${heatColour(fraction(value))}` : null;
    return html`<td class="cell" style=${colour} title=${text} onpointerenter=${() => onHover(text)}></td>`;
  };
  const row = site => html`<tr>
    <th scope="row"><button type="button" title=${`${site}: draw its curve`} onclick=${() => onChoose(site)}>
      ${shortSite(site)}</button></th>
    ${steps.map(step => cell(site, step))}<td>${significant(sites[site].get(steps.at(-1)))}</td></tr>`;
  return html`<div class="scroll" tabindex="0"><table class="heat">
    <thead><tr><th scope="col">Site</th>
      ${
      steps.map((step, i) => html`<th scope="col">${i % every ? '' : step}</th>`)}<th scope="col">last</th></tr></thead>
    <tbody>${Object.keys(sites).map(row)}</tbody></table></div>`;
}

function heatSection() {
  const all = data.runs.map(sitesOf), quantities = quantitiesIn(all);
  if (!quantities.length) return null;
  const readout = html`<span class="note" aria-live="polite"></span>`, tables = html`<div class="grid"></div>`;
  const scale = html`<span class="scale"></span>`, chosen = html`<div></div>`;
  const choose = html`<select aria-label="Quantity" id="quantity" onchange=${() => show(choose.value)}>
    ${options(quantities.map(titleOf), quantities)}</select>`;
  let card = null;
  const drawSite = (quantity, site) => {
    if (!haveCharts) return;
    if (card) removeCard(card);
    card = chartCard({
      title: shortSite(site),
      unit: titleOf(quantity),
      logarithmic: true,
      values: run => all[data.runs.indexOf(run)][quantity]?.[site] || new Map()
    });
    chosen.replaceChildren(card.element);
    refresh();
    card.element.scrollIntoView({block: 'nearest'});
  };
  const show = quantity => {
    const values = all.flatMap(run => (run[quantity] ? valuesOf(run[quantity]) : [])).filter(positive);
    const low = Math.min(...values), high = Math.max(...values), span = Math.log(high / low) || 1;
    const colours = kStops.map((_, i) => heatColour(i / (kStops.length - 1))).join(', ');
    scale.replaceChildren(
        significant(low), html`<i style=${`background: linear-gradient(90deg, ${colours})`}></i>`,
        `${significant(high)}, logarithmic`);
    const fraction = value => Math.log(value / low) / span;
    const actions = {onHover: text => readout.textContent = text, onChoose: site => drawSite(quantity, site)};
    tables.replaceChildren(...data.runs.flatMap(
        (run, i) => all[i][quantity] ? [runCard(i, run.name, heatTable(all[i][quantity], fraction, actions))] : []));
    readout.textContent = haveCharts ? 'Click a site to draw its curve in all runs.' : '';
    if (card) removeCard(card);
    card = null;
  };
  show(quantities[0]);
  return [html`<div class="toolbar">${[choose, scale, readout]}</div>`, tables, chosen];
}
