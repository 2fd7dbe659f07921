// Elements of the page, and numbers as text. Text from a run becomes text nodes, never HTML.

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (typeof value === 'function')
      node.addEventListener(name, value);
    else if (value === true)
      node.setAttribute(name, '');
    else if (value !== false && value !== undefined)
      node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

const isNumber = value => typeof value === 'number';

// A dash stands for values that are missing or not finite.
function fixed(value, decimals) { return isNumber(value) ? value.toFixed(decimals) : '–'; }

function significant(value) {
  if (!isNumber(value)) return '–';
  return Math.abs(value) >= 1e4 && Math.abs(value) < 1e9 ? Math.round(value).toString() :
                                                           Number(value.toPrecision(4)).toString();
}

function duration(seconds) {
  const two = n => String(n).padStart(2, '0');
  const s = Math.round(seconds), hours = Math.floor(s / 3600), minutes = Math.floor(s / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

// Returns "encoder.0.self_attn" for "encoder.layers.0.self_attn_layer_norm".
const shortSite = site => site.replace('.layers', '').replace('_layer_norm', '');

function mean(values) { return values.reduce((sum, value) => sum + value, 0) / values.length; }

// Returns the standard deviation of a sample; 0 for a single value.
function deviation(values) {
  const m = mean(values);
  return values.length < 2 ? 0 : Math.sqrt(values.reduce((sum, v) => sum + (v - m) ** 2, 0) / (values.length - 1));
}

const colourOf = index => getComputedStyle(document.documentElement).getPropertyValue(`--run-${index % 8}`).trim();
// Runs of one cell of a grid have one colour.
const colourIndex = run => data.runs[run].cell ?? run;
const swatch = index => element('span', {class: 'swatch', style: `background: var(--run-${index % 8})`});

// rows of cells; a cell is text, a node, or {content, class}.
function table(head, rows) {
  const cell = (tag, value, attributes) => {
    const plain = value === null || typeof value !== 'object' || value instanceof Node;
    return element(tag, {...attributes, class: plain ? undefined : value.class}, plain ? value : value.content);
  };
  return element(
      'div', {class: 'scroll', tabindex: 0},
      element(
          'table', {}, element('thead', {}, element('tr', {}, ...head.map(text => cell('th', text, {scope: 'col'})))),
          element(
              'tbody', {},
              ...rows.map(
                  row => element(
                      'tr', {class: row.class}, cell('th', row.cells[0], {scope: 'row'}),
                      ...row.cells.slice(1).map(value => cell('td', value)))))));
}
