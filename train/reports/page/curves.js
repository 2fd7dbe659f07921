// Curves of values over updates. One line for each run, or for each group of seeds.

const view = {
  smoothing: 0,
  means: false,
  hidden: new Set(),
  range: null
};

const kCurves = [
  {event: 'train', key: 'loss', title: 'Training loss', unit: 'nats per token'},
  ...kScores.map(
      ({key, title, curve, unit}) =>
          ({event: 'validate', key, title: curve ?? title, unit, logarithmic: key === 'perplexity'})),
  {event: 'train', key: 'gradient_norm', title: 'Gradient norm', unit: 'before train.clip', logarithmic: true},
  {event: 'train', key: 'lr', title: 'Learning rate', unit: ''},
  {event: 'train', key: 'tokens_per_second', title: 'Speed', unit: 'tokens / s'},
  {event: 'train', key: 'images_per_second', title: 'Speed', unit: 'images / s'},
];

// Returns the curves above that the logs have and that are not always 0, then other numbers.
function curvesIn(runs) {
  const found = new Map();
  for (const event of runs.flatMap(run => run.events))
    if (event.event === 'train' || event.event === 'validate')
      for (const [key, value] of Object.entries(event))
        if (isNumber(value) && value !== 0 && key !== 'step' && key !== 'seconds')
          found.set(`${event.event} ${key}`, {event: event.event, key});
  const name = curve => `${curve.event} ${curve.key}`;
  if (repeatsBleu(runs.flatMap(run => run.events))) found.delete('validate tokenized_bleu');
  const ofImages = found.has('train images_per_second') && !found.has('train tokens_per_second');
  const isSmoothed = runs.some(run => Number(run.settings['train.label_smoothing']) > 0);
  const unitOf = curve => (ofImages ? curve.unit.replace('per token', 'per image') : curve.unit) +
      (isSmoothed && name(curve) === 'train loss' ? ', label-smoothed' : '');
  const known = kCurves.filter(curve => found.delete(name(curve))).map(curve => ({...curve, unit: unitOf(curve)}));
  return [...known, ...[...found.values()].map(curve => ({...curve, title: name(curve), unit: ''}))].map(
      curve => ({
        ...curve,
        smooth: curve.event === 'train',
        values: run => new Map(eventsOf(run, curve.event).map(event => [event.step, event[curve.key]]))
      }));
}

// Returns the lines. A line is the mean over its runs, or a single run.
function lines() {
  const single = index => ({key: data.runs[index].name, runs: [index], colour: index});
  const all = data.runs.map((_, index) => index);
  if (!view.means) return all.map(single);
  const grouped = new Set(data.groups.flat());
  return [
    ...data.groups.map(group => ({key: groupName(group), runs: group, colour: group[0]})),
    ...all.filter(index => !grouped.has(index)).map(single)
  ];
}

// Returns [{x, y, low, high}] at the steps that all runs of the line have: mean, least, greatest; null if not finite.
function pointsOf(line, curve) {
  const runs = line.runs.map(index => curve.values(data.runs[index]));
  return [...runs[0].keys()].filter(step => runs.every(run => run.has(step))).map(step => {
    const values = runs.map(run => run.get(step));
    if (!values.every(isNumber)) return {x: step, y: null, low: null, high: null};
    return {x: step, y: mean(values), low: Math.min(...values), high: Math.max(...values)};
  });
}

// Returns the exponential moving average, divided by the sum of its weights.
function smoothed(values) {
  let sum = 0, weight = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = view.smoothing * sum + (1 - view.smoothing) * value;
    weight = view.smoothing * weight + (1 - view.smoothing);
    return sum / weight;
  });
}
