// Tables: the results of the runs, the settings in which they differ, the validations of one, and PNAC of recordings.

// Known scores of a validation, for tables and curves. A curve may have another title and has a unit.
const kScores = [
  {key: 'loss', title: 'Loss', curve: 'Validation loss', unit: 'nats per token', decimals: 4, best: Math.min},
  {key: 'perplexity', title: 'Perplexity', curve: 'Validation perplexity', unit: '', decimals: 3, best: Math.min},
  {key: 'bits_per_character', title: 'Bits per character', unit: 'validation text', decimals: 4, best: Math.min},
  {key: 'bleu', title: 'BLEU', unit: 'on the validation text', decimals: 2, best: Math.max},
  {key: 'tokenized_bleu', title: 'Tokenized BLEU', unit: 'on the validation text', decimals: 2, best: Math.max},
  {key: 'chrf', title: 'chrF2', unit: 'on the validation text', decimals: 2, best: Math.max},
  {key: 'exact', title: 'Exact %', curve: 'Exact match', unit: '% of lines', decimals: 1, best: Math.max},
  {key: 'top1', title: 'Top-1 %', curve: 'Top-1', unit: '% of images', decimals: 2, best: Math.max},
  {key: 'top5', title: 'Top-5 %', curve: 'Top-5', unit: '% of images', decimals: 2, best: Math.max},
];

// True if tokenized BLEU repeats BLEU to the digits shown, as for text without punctuation. Only BLEU is smoothed, so
// the first validations may have 0.58 where tokenized BLEU is 0.
function repeatsBleu(events) {
  const equal = ({bleu, tokenized_bleu}) => tokenized_bleu === bleu || Math.abs(tokenized_bleu - bleu) < 0.005;
  return events.every(event => equal(event) || event.tokenized_bleu === 0) &&
      events.some(event => isNumber(event.tokenized_bleu) && equal(event));
}

const eventsOf = (run, kind) => run.events.filter(event => event.event === kind);

// Returns the better of the values of a score that is not in kScores, or NaN for a score that decides in no run.
function bestOf(key) {
  const start = data.runs.flatMap(run => eventsOf(run, 'start')).find(({score}) => score === key);
  return start ? (start.smaller_is_better ? Math.min : Math.max) : () => NaN;
}

// Returns the known scores that the validations have, then the others, which have their keys as titles.
function scoresIn(events) {
  const has = key => events.some(event => isNumber(event[key])), known = new Set(kScores.map(score => score.key));
  const others = new Set(events.flatMap(Object.keys).filter(key => has(key) && !known.has(key)));
  others.delete('step');
  others.delete('seconds');
  return [
    ...kScores.filter(score => has(score.key) && !(score.key === 'tokenized_bleu' && repeatsBleu(events))),
    ...[...others].map(key => ({key, title: key, decimals: 4, best: bestOf(key)}))
  ];
}
const bestValidation = run =>
    run.best && eventsOf(run, 'validate').filter(event => event.step === run.best.step).at(-1);

// Returns a cell for each event; of several the best is marked. Events may be missing.
function scoreColumn(score, events) {
  const values = events.map(event => event ? event[score.key] : null), numbers = values.filter(isNumber);
  const best = new Set(numbers).size > 1 ? score.best(...numbers) : NaN;
  const shown = value => fixed(value, score.decimals);
  const marked = value => html`<span>${shown(value)}<span class="hidden-text"> best</span></span>`;
  return values.map(value => value === best ? {class: 'best', content: marked(value)} : shown(value));
}

function groupName(group) {
  const names = group.map(index => data.runs[index].name);
  return 'mean of ' + (names.length > 2 ? `${names[0]} … ${names.at(-1)}` : names.join(', '));
}

// Mean ± standard deviation over the runs of a group that have the score.
function meanScore(score, events) {
  const values = events.filter(Boolean).map(event => event[score.key]).filter(isNumber);
  const [m, s] = values.length ? [mean(values), deviation(values)] : [];
  return values.length ? `${fixed(m, score.decimals)} ± ${fixed(s, score.decimals)}` : '–';
}

// Returns the summary's columns, {title, cell of a run, cell of a group}. Scores come first: a phone shows few columns.
function summaryColumns() {
  const best = data.runs.map(bestValidation),
        scores = scoresIn(best.filter(Boolean)).filter(({key}) => key !== 'loss');  // perplexity says the same
  const counted = key => data.runs.some(run => run[key] > 0);
  const scoreColumns = scores.map(score => {
    const cells = scoreColumn(score, best);
    return {title: score.title, run: (run, i) => cells[i], group: group => meanScore(score, group.map(i => best[i]))};
  });
  return [
    {title: 'Run', run: (run, i) => html`<span>${swatch(i)}${run.name}</span>`, group: groupName},
    ...scoreColumns,
    {
      title: 'Normalizer',
      run: run => run.norm + (run.in_warmup ? ' (never left its warm-up)' : ''),
      group: group => data.runs[group[0]].norm
    },
    {title: 'Outcome', run: run => run.outcome, group: group => `${group.length} seeds`},
    {title: 'Steps', run: run => String(run.steps)},
    {title: 'Best step', run: run => (run.best ? String(run.best.step) : '–')},
    ...counted('skips') ? [{title: 'Skips', run: run => String(run.skips)}] : [],
    ...counted('failures') ? [{title: 'Not finite', run: run => String(run.failures)}] : [],
    {title: 'Parameters', run: run => String(run.parameters)},
    {
      title: 'Time',
      run: run => duration(run.seconds),
      group: group => duration(mean(group.map(i => data.runs[i].seconds)))
    },
  ];
}

function summarySection() {
  const columns = summaryColumns();
  const signatures = new Set(data.runs.map(run => run.best?.signature).filter(Boolean));
  const onTest = data.runs.filter(run => run.validated_on === 'test').map(run => run.name);
  const runRow = (run, i) => ({cells: columns.map(column => column.run(run, i))});
  const groupRow = group => ({class: 'mean', cells: columns.map(column => (column.group ? column.group(group) : ''))});
  return [
    html`<div class="card">${
        table(columns.map(column => column.title), [...data.runs.map(runRow), ...data.groups.map(groupRow)])}</div>`,
    note([
      'Scores are those of the best validation. ', ...[...signatures].map(text => `Signature: ${text}. `),
      onTest.length ? `Validated on the test images, so that the last validation counts: ${onTest.join(', ')}. ` : '',
      data.groups.length ? 'Means are over runs that differ only in their seed, ± one standard deviation of them.' : ''
    ])
  ];
}

function differencesSection() {
  if (data.runs.length < 2) return null;
  const keys = [...new Set(data.runs.flatMap(run => Object.keys(run.settings)))];
  const differing = keys.filter(key => new Set(data.runs.map(run => run.settings[key])).size > 1);
  if (!differing.length) return [note('The configurations are equal.')];
  const head = () => ['Setting', ...data.runs.map((run, i) => html`<span>${swatch(i)}${run.name}</span>`)];
  const shown = value => value === undefined ? '–' : value === '' ? '""' : value;
  const row = key => ({cells: [html`<code>${key}</code>`, ...data.runs.map(run => shown(run.settings[key]))]});
  // Families have their own keys, which say no more than the family's name.
  const families = new Set(data.runs.map(run => run.settings['model.family'])).size > 1;
  const ofAll = differing.filter(key => !families || data.runs.every(run => key in run.settings)),
        ofSome = differing.filter(key => !ofAll.includes(key));
  const rest = () => html`<details><summary>${ofSome.length} keys that some runs lack</summary>
    ${table(head(), ofSome.map(row))}</details>`;
  return [
    html`<div class="card">${ofAll.length ? table(head(), ofAll.map(row)) : null}${ofSome.length ? rest() : null}</div>`
  ];
}

function validationTable(run) {
  const events = eventsOf(run, 'validate'), scores = scoresIn(events);
  if (!events.length) return null;
  const columns = scores.map(score => scoreColumn(score, events));
  const rows = events.map((event, i) => ({cells: [event.step, ...columns.map(column => column[i])]}));
  return html`<details open=${data.runs.length === 1}><summary>Validations</summary>
    ${table(['Step', ...scores.map(score => score.title)], rows)}</details>`;
}

function failureTable(run) {
  const events = run.events.filter(event => event.event === 'not_finite' || event.event === 'diverged');
  if (!events.length) return null;
  const what = ({event, action}) => event === 'diverged' ? event : `not finite: ${action}`;
  const row = event => ({cells: [what(event), event.step, {class: 'text', content: event.message}]});
  return table(['What', 'Step', {class: 'text', content: 'Message'}], events.map(row));
}

function detailsSection() {
  const details = ({title, text}) => html`<details><summary>${title}</summary><pre>${text}</pre></details>`;
  return data.runs.map(
      (run, i) => runCard(i, run.name, validationTable(run), failureTable(run), ...run.files.map(details)));
}

function pnacTable({phases, sites}) {
  const columns = phases.flatMap(({name}) => ['q', 'G', 'noise'].map(kind => `${kind} ${name}`));
  const row = ({site, channels, pnac}) =>
      ({cells: [shortSite(site), String(channels), ...columns.map(column => fixed(pnac[column], 1))]});
  return table(['Site', 'Channels', ...columns], sites.map(row));
}

function pnacNote({window, phases}) {
  if (!window) return 'Too few iterations were recorded for a normality test.';
  const when =
      phases.map(({name, first, last, windows}) => `${name}: ${windows} windows in updates ${first} to ${last}`);
  return `Percentage of channels whose last ${window} values pass a normality test (window ${window}), mean over ` +
      `the windows of a phase. Noise is the same percentage for white noise. ${when.join('; ')}.`;
}

function recordingsSection() {
  const card = ({name, recordings}, i) => recordings &&
      runCard(i, `${name}: PNAC of ${recordings.normalizer}`, note(pnacNote(recordings)),
              recordings.window ? pnacTable(recordings) : null);
  const cards = data.runs.map(card).filter(Boolean);
  return cards.length ? [...cards, ...traceBrowser()] : null;
}
