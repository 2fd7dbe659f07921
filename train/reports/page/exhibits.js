// Exhibits of the last validation: shaded tables of counts, and sheets of pictures.

// A row for each class, shaded by its fraction of the row. Text stays readable on the darkest shade.
function countsTable({names, counts}) {
  const cell = (count, sum) =>
      ({class: 'share', content: html`<span style=${`--share: ${sum ? count / sum : 0}`}>${count || '·'}</span>`});
  return table(['', ...names], counts.map((row, i) => {
    const sum = row.reduce((a, b) => a + b, 0);
    return {cells: [names[i], ...row.map(count => cell(count, sum))]};
  }));
}

function pictureSheet({pictures, columns}) {
  const [kind, style] = columns ? ['pictures columns', `--columns: ${Number(columns)}`] : ['pictures'];
  const picture = ({caption, png}) => Object.assign(html`<img alt=${caption}>`, {src: `data:image/png;base64,${png}`});
  return html`<div class=${kind} style=${style}>${pictures.map(shown => html`
    <figure>${picture(shown)}<figcaption>${shown.caption}</figcaption></figure>`)}</div>`;
}

function exhibitsSection() {
  const content = exhibit => exhibit.matrix ? countsTable(exhibit.matrix) : pictureSheet(exhibit);
  const card = (run, i, exhibit) =>
      runCard(i, `${run.name}: ${exhibit.title.toLowerCase()}`, note(exhibit.note), content(exhibit));
  const cards = data.runs.flatMap((run, i) => (run.exhibits || []).map(exhibit => card(run, i, exhibit)));
  return cards.length ? cards : null;
}
