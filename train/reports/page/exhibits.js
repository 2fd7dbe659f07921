// Exhibits of the last validation besides its scores: shaded tables of counts, and sheets of pictures.

// A row for each class, shaded by its share of the row. Text stays readable on the darkest shade.
function countsTable({names, counts}) {
  const cell = (count, sum) => ({
    class: 'share',
    content: element('span', {style: `--share: ${sum ? count / sum : 0}`}, count ? String(count) : '·')
  });
  return table(['', ...names], counts.map((row, i) => {
    const sum = row.reduce((a, b) => a + b, 0);
    return {cells: [names[i], ...row.map(count => cell(count, sum))]};
  }));
}

function pictureSheet({pictures, columns}) {
  return element(
      'div', columns ? {class: 'pictures columns', style: `--columns: ${Number(columns)}`} : {class: 'pictures'},
      ...pictures.map(
          ({caption, png}) => element(
              'figure', {}, element('img', {src: `data:image/png;base64,${png}`, alt: caption}),
              element('figcaption', {}, caption))));
}

function exhibitsSection() {
  const cards = data.runs.flatMap(
      (run, i) => (run.exhibits || [])
                      .map(
                          exhibit => element(
                              'div', {class: 'card'},
                              element('h3', {}, swatch(i), `${run.name}: ${exhibit.title.toLowerCase()}`),
                              element('p', {class: 'note'}, exhibit.note),
                              exhibit.matrix ? countsTable(exhibit.matrix) : pictureSheet(exhibit))));
  return cards.length ? cards : null;
}
