// Traces of a recorded channel: q and G over the iterations, and arithmetic and geometric means of their last values.

const kSkipped = 1;  // the bit of a flag
const kKinds = {
  q: 'mean square of the input',
  G: 'gradient statistic'
};

// Returns one column of [iterations, channels] in base64.
function channelOf(text, type, channels, column) {
  const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
  return [...new type(bytes.buffer)].filter((_, i) => i % channels === column);
}

// Returns the result of moving_means() in train/analyses/pnac.h, with null if there are too few values.
function movingMeans(values, window) {
  const of = average => values.map((_, i) => i + 1 < window ? null : average(values.slice(i + 1 - window, i + 1)));
  return {arithmetic: of(mean), geometric: of(some => Math.exp(mean(some.map(Math.log))))};
}

// Returns the lines of a chart, [{label, x, y}], and the skipped iterations.
function traceOf({phases, trace_window: window}, site, column, kind, name) {
  const {updates} = phases.find(phase => phase.name === name), {trace} = site;
  const read = (what, type) => {
    const text = trace[`${what} ${name}`];
    return text && channelOf(text, type, trace.channels.length, column);
  };
  const values = read(kind, Float32Array), flags = read('flag', Uint8Array) ?? [];
  if (!values) return null;
  const {arithmetic, geometric} = movingMeans(values, window);
  const line = (label, y) => ({label, points: updates.map((x, i) => ({x, y: Number.isFinite(y[i]) ? y[i] : null}))});
  return {
    lines: [line(kind, values), line(`AM of ${window}`, arithmetic), line(`GM of ${window}`, geometric)].filter(
        ({points}) => points.some(({y}) => y !== null)),
    skipped: line('skipped', values.map((value, i) => (flags[i] & kSkipped ? value : null)))
  };
}

function traceDatasets({lines, skipped}) {
  const sets = lines.map(({label, points}, i) => ({
                           label,
                           data: points,
                           borderColor: i ? colourOf(i) : colourOf(0) + '99',
                           backgroundColor: colourOf(i),
                           borderWidth: i ? 2 : 1,
                           pointRadius: 0,
                           pointHoverRadius: 4
                         }));
  if (skipped.points.some(({y}) => y !== null))
    sets.push({
      label: skipped.label,
      data: skipped.points,
      showLine: false,
      pointStyle: 'crossRot',
      pointRadius: 5,
      borderColor: colourOf(3),
      backgroundColor: colourOf(3)
    });
  return sets;
}

// The options of a curve, but with a separate range of updates and a legend in each.
function traceOptions() {
  const options = optionsOf({logarithmic: false}), {x, y} = options.scales;
  return {
    ...options,
    scales: {
      x: {...x, bounds: 'data', suggestedMin: undefined, min: undefined, max: undefined},
      y: {...y, ticks: {...y.ticks, callback: significant}}
    },
    plugins:
        {...options.plugins, legend: {display: true, position: 'bottom', labels: {color: x.ticks.color, boxWidth: 14}}}
  };
}

function traceCard(trace, kind, phase, where) {
  return addFigure({datasets: () => traceDatasets(trace), options: traceOptions}, {
    title: `${kind}, ${phase}`,
    unit: kKinds[kind],
    label: `${kind} of ${where}, ${phase}, with its means, against updates`
  });
}

// An input for a number if all channels are recorded, otherwise a choice of two.
function channelChoice({channels, trace}, change) {
  if (trace.channels.length === channels)
    return html`<input type="number" id="trace-channel" min="0" max=${channels - 1} value="0" oninput=${change}>`;
  return html`<select id="trace-channel" onchange=${change}>
    ${options(trace.channels, trace.channels)}</select>`;
}

// Choices of run, site and channel, and the charts of the chosen ones.
function traceBrowser() {
  const recorded = data.runs.filter(run => run.recordings);
  if (!recorded.length || !haveCharts) return [];
  const grid = html`<div class="grid"></div>`, channelPlace = html`<span></span>`;
  const channelNote = html`<p class="note" aria-live="polite"></p>`;
  const run =
      html`<select id="trace-run" onchange=${() => chooseRun()}>${options(recorded.map(({name}) => name))}</select>`;
  const site = html`<select id="trace-site" onchange=${() => chooseSite()}></select>`;
  let cards = [];
  const recordings = () => recorded[Number(run.value)].recordings;
  const chosen = () => recordings().sites[Number(site.value)];
  function draw() {
    const field = channelPlace.firstElementChild, column = chosen().trace.channels.indexOf(Number(field.value));
    field.setAttribute('aria-invalid', String(field.value === '' || column < 0));
    if (field.value === '' || column < 0) return;
    cards.forEach(removeCard);
    cards = [];
    for (const kind of Object.keys(kKinds))
      for (const phase of recordings().phases) {
        const trace = traceOf(recordings(), chosen(), column, kind, phase.name);
        if (trace) cards.push(traceCard(trace, kind, phase.name, `${chosen().site}, channel ${field.value}`));
      }
    grid.replaceChildren(...cards.map(card => card.element));
  }
  function chooseSite() {
    channelPlace.replaceChildren(channelChoice(chosen(), draw));
    const some = chosen().trace.channels.length < chosen().channels;
    channelNote.textContent = some ?
        'More was recorded than fits into this page: of each site it has the channels with the least and the ' +
            'greatest AM / GM. python3 -m foldgrad.analyze trace has the others.' :
        `Channels 0 to ${chosen().channels - 1}.`;
    draw();
  }
  function chooseRun() {
    site.replaceChildren(...options(recordings().sites.map(one => shortSite(one.site))));
    chooseSite();
  }
  chooseRun();
  return [
    html`<h3>Traces</h3>`, html`<div class="toolbar">
      ${recorded.length > 1 ? html`<label>Run${run}</label>` : null}
      <label>Site${site}</label><label>Channel${channelPlace}</label></div>`,
    channelNote, grid
  ];
}
