// Charts, drawn by Chart.js: one for each curve. All share a legend and a range of updates.

const charts = [];
const kDashes = [[], [6, 3], [2, 2], [9, 2, 2, 2]];  // for the first eight lines, the next eight, ...
const haveCharts = typeof Chart !== 'undefined';

// A line, the same line before smoothing, and a band from the least to the greatest of several runs.
function datasetsOf(card) {
  const smooth = card.curve.smooth && view.smoothing > 0;
  return lines().flatMap(line => {
    const points = pointsOf(line, card.curve), colour = colourOf(line.colour);
    const column = (key, average) => {
      const values = points.map(point => point[key]);
      return (average ? smoothed(values) : values)
          .map((y, i) => ({x: points[i].x, y: card.logarithmic && !(y > 0) ? null : y}));
    };
    const style = {label: line.key, borderColor: colour, backgroundColor: colour, hidden: view.hidden.has(line.key)};
    const helper = {...style, borderWidth: 0, pointRadius: 0, pointHoverRadius: 0, helper: true};
    const sets = [{
      ...style,
      data: column('y', smooth),
      borderWidth: 2,
      pointRadius: points.length > 40 ? 0 : 2.5,
      pointHoverRadius: 5,
      borderDash: kDashes[Math.floor(line.colour / 8) % kDashes.length]
    }];
    if (smooth) sets.push({...helper, data: column('y', false), borderWidth: 1, borderColor: colour + '55'});
    if (line.runs.length > 1)
      sets.push(
          {...helper, data: column('low', smooth), fill: '+1', backgroundColor: colour + '33'},
          {...helper, data: column('high', smooth)});
    return sets;
  });
}

// Returns multiples of 1, 2 or 5 times a power of ten that divide an interval into at most `most` parts.
function evenTicks(min, max, most) {
  const power = 10 ** Math.floor(Math.log10((max - min) / most));
  const step = [1, 2, 5, 10].map(digit => digit * power).find(size => (max - min) / size <= most);
  const first = Math.ceil(min / step);
  return Array.from({length: Math.floor(max / step) - first + 1}, (_, i) => (first + i) * step);
}

// Sets ticks of a logarithmic axis: 1, 2 and 5 in each decade, only 1 if there are many decades, and even steps within
// one.
function logarithmicTicks(scale) {
  const {min, max} = scale, digits = max / min > 1e4 ? [1] : [1, 2, 5], values = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); ++power)
    values.push(...digits.map(digit => Number(`${digit}e${power}`)).filter(value => value >= min && value <= max));
  scale.ticks = (values.length > 2 || min === max ? values : evenTicks(min, max, 5)).map(value => ({value}));
}

function scalesOf(card) {
  const colours = getComputedStyle(document.documentElement);
  const ticks = {color: colours.getPropertyValue('--muted'), maxRotation: 0};
  const grid = {color: colours.getPropertyValue('--line'), borderColor: colours.getPropertyValue('--line')};
  const [min, max] = view.range || [undefined, undefined];
  return {
    x: {
      type: 'linear',
      suggestedMin: 0,
      min,
      max,
      ticks: {...ticks, maxTicksLimit: 8},
      grid,
      title: {display: true, text: 'updates', color: ticks.color}
    },
    y: card.logarithmic ? {
      type: 'logarithmic',
      bounds: 'data',
      afterBuildTicks: logarithmicTicks,
      ticks: {...ticks, callback: significant},
      grid
    } :
                          {type: 'linear', ticks: {...ticks, maxTicksLimit: 7}, grid},
  };
}

function refresh() {
  for (const card of charts) {
    card.chart.data.datasets = card.datasets();
    card.chart.options = card.options();
    card.chart.update('none');
  }
  document.querySelector('#zoom-out').hidden = !view.range;
  fillLegend();
}

const kCrosshair = {
  id: 'crosshair',
  afterDatasetsDraw({ctx, tooltip, chartArea, options}) {
    if (!tooltip || !tooltip.opacity) return;
    ctx.save();
    ctx.strokeStyle = options.scales.x.ticks.color;
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(tooltip.caretX, chartArea.top);
    ctx.lineTo(tooltip.caretX, chartArea.bottom);
    ctx.stroke();
    ctx.restore();
  },
};

// Lets the mouse choose a range of updates, in all charts at once. A finger scrolls the page.
function chooseRange(card) {
  const selection = html`<div class="selection" hidden></div>`, {canvas} = card.chart;
  let begin = null;
  canvas.after(selection);
  const inside = event => {
    const {left, right} = card.chart.chartArea;
    return Math.min(Math.max(event.clientX - canvas.getBoundingClientRect().left, left), right);
  };
  canvas.addEventListener('pointerdown', event => {
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    begin = inside(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (begin === null) return;
    const end = inside(event), {top, bottom} = card.chart.chartArea;
    selection.hidden = false;
    selection.style.cssText =
        `left: ${Math.min(begin, end)}px; width: ${Math.abs(end - begin)}px; top: ${top}px; height: ${bottom - top}px`;
  });
  canvas.addEventListener('pointerup', event => {
    if (begin === null) return;
    const ends = [begin, inside(event)].sort((a, b) => a - b);
    begin = null;
    selection.hidden = true;
    if (ends[1] - ends[0] < 8) return;
    setRange(ends.map(pixel => card.chart.scales.x.getValueForPixel(pixel)));
  });
  canvas.addEventListener('dblclick', () => setRange(null));
}

function setRange(range) {
  view.range = range;
  refresh();
}

function optionsOf(card) {
  return {
    animation: false,
    parsing: false,
    maintainAspectRatio: false,
    responsive: true,
    interaction: {mode: 'nearest', axis: 'x', intersect: false},
    scales: scalesOf(card),
    plugins: {
      legend: {display: false},
      tooltip: {
        filter: item => !item.dataset.helper,
        itemSort: (a, b) => b.parsed.y - a.parsed.y,
        callbacks: {
          title: items => (items.length ? `update ${items[0].parsed.x}` : ''),
          label: item => ` ${significant(item.parsed.y)}  ${item.dataset.label}`
        },
      },
    },
  };
}

// Makes a change and redraws all charts.
function changing(change) {
  return ({target}) => {
    change(target);
    refresh();
  };
}

// Adds the chart of a card, {datasets, options}, which refresh() draws, and the figure around it.
function addFigure(card, {title, unit, label}, control) {
  const canvas = html`<canvas role="img" aria-label=${label}></canvas>`;
  card.element = html`<figure class="card">
    <figcaption><strong>${title}</strong><span class="unit">${unit}</span>${control}</figcaption>
    <div class="plot">${canvas}</div></figure>`;
  card.chart = new Chart(
      canvas, {type: 'line', data: {datasets: card.datasets()}, options: card.options(), plugins: [kCrosshair]});
  charts.push(card);
  return card;
}

function chartCard(curve) {
  const {title, unit} = curve, card = {curve, logarithmic: Boolean(curve.logarithmic)};
  card.datasets = () => datasetsOf(card);
  card.options = () => optionsOf(card);
  const log = html`<input type="checkbox" oninput=${changing(({checked}) => card.logarithmic = checked)}>`;
  log.checked = card.logarithmic;
  addFigure(card, {title, unit, label: `${title}, ${unit}, against updates`}, html`<label>${log}log</label>`);
  chooseRange(card);
  return card;
}

function removeCard(card) {
  charts.splice(charts.indexOf(card), 1);
  card.chart.destroy();
  card.element.remove();
}

function fillLegend() {
  const toggle = key => {
    if (!view.hidden.delete(key)) view.hidden.add(key);
    refresh();
  };
  document.querySelector('#legend').replaceChildren(...lines().map(({key, colour}) => html`
    <button type="button" aria-pressed=${String(!view.hidden.has(key))} onclick=${() => toggle(key)}>
      ${swatch(colour)}${key}</button>`));
}

function toolbar() {
  const smoothing = html`<input type="range" id="smoothing" min="0" max="0.98" step="0.02" value="0"
    oninput=${changing(({value}) => view.smoothing = Number(value))}>`;
  const means = html`<input type="checkbox" id="means" oninput=${changing(({checked}) => view.means = checked)}>`;
  return html`<div class="toolbar">
    <div id="legend" class="legend" role="group" aria-label="Runs"></div>
    <label>Smooth training curves${smoothing}</label>
    ${data.groups.length ? html`<label>${means}Mean over seeds</label>` : null}
    <button type="button" id="zoom-out" hidden onclick=${() => setRange(null)}>All updates</button></div>`;
}

function curvesSection() {
  if (!haveCharts)
    return [
      html`<p class="note">There are no curves, since this foldgrad was built without Chart.js. Install it (Debian: 
      libjs-chart.js), build again and call <code>foldgrad report</code> again.</p>`
    ];
  const curves = curvesIn(data.runs);
  const hint = curves.length ?
      'Drag across a chart to enlarge these updates in all of them; double-click to see all again.' :
      'Nothing has been logged yet.';
  return [toolbar(), html`<div class="grid">${curves.map(curve => chartCard(curve).element)}</div>`, note(hint)];
}
