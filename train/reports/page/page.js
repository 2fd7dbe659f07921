// Puts the sections together. A section gives its content, or null when the logs have none.

const data = JSON.parse(document.querySelector('#data').textContent);

const kSections = [
  {id: 'grid', title: 'Grid', content: gridSection},
  {id: 'runs', title: 'Runs', content: summarySection},
  {id: 'settings', title: 'What differs', content: differencesSection},
  {id: 'exhibits', title: 'Results', content: exhibitsSection},
  {id: 'curves', title: 'Curves', content: curvesSection},
  {id: 'sites', title: 'Layers and normalizers', content: heatSection},
  {id: 'recordings', title: 'Recordings', content: recordingsSection},
  {id: 'details', title: 'Details', content: detailsSection},
];
const kGridSections = ['grid', 'curves', 'runs'];  // sections of a page on many runs
const sections = data.grid ? kGridSections.map(id => kSections.find(section => section.id === id)) : kSections;

// The system's theme, until the button is pressed.
function followTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const set = dark => {
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    if (charts.length) refresh();
  };
  let pressed = false;
  system.addEventListener('change', () => {
    if (!pressed) set(system.matches);
  });
  document.querySelector('#theme').addEventListener('click', () => {
    pressed = true;
    set(document.documentElement.dataset.theme !== 'dark');
  });
  set(system.matches);
}

followTheme();
for (const {id, title, content} of sections) {
  const children = content();
  if (!children) continue;
  document.querySelector('#page').append(element('section', {id}, element('h2', {}, title), ...children));
  document.querySelector('#contents').append(element('a', {href: `#${id}`}, title));
}
if (charts.length) refresh();
