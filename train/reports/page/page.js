// Combines the sections. A section returns its content, or null if the logs have none.

const data = JSON.parse(document.querySelector('#data').textContent);

const kSections = [
  {id: 'runs', title: 'Runs', content: summarySection},
  {id: 'settings', title: 'What differs', content: differencesSection},
  {id: 'exhibits', title: 'Results', content: exhibitsSection},
  {id: 'curves', title: 'Curves', content: curvesSection},
  {id: 'sites', title: 'Layers and normalizers', content: heatSection},
  {id: 'recordings', title: 'Recordings', content: recordingsSection},
  {id: 'details', title: 'Details', content: detailsSection},
];

// Follows the system's theme until the button is pressed.
function followTheme() {
  const {dataset} = document.documentElement, system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const apply = () => {
    dataset.theme = chosen ?? (system.matches ? 'dark' : 'light');
    if (charts.length) refresh();
  };
  system.addEventListener('change', apply);
  document.querySelector('#theme').addEventListener('click', () => {
    chosen = dataset.theme === 'dark' ? 'light' : 'dark';
    apply();
  });
  apply();
}

followTheme();
for (const {id, title, content} of kSections) {
  const children = content();
  if (!children) continue;
  document.querySelector('#page').append(html`<section id=${id}><h2>${title}</h2>${children}</section>`);
  document.querySelector('#contents').append(Object.assign(html`<a>${title}</a>`, {href: `#${id}`}));
}
if (charts.length) refresh();
