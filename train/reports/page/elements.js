// Elements of the page, and numbers as text.

// Makes an element. ${...} is text, a node, a list of these or, if null or undefined, nothing; in a tag it is an
// attribute's value or an event's handler. Text from a run becomes text nodes, never HTML.
function html(parts, ...values) {
  const content = templateOf(parts).content.cloneNode(true), isNothing = value => value === null || value === undefined;
  for (const node of content.querySelectorAll('*'))
    for (const {name, value} of [...node.attributes].filter(attribute => attribute.value.startsWith('?'))) {
      const given = values[value.slice(1)];
      node.removeAttribute(name);
      if (typeof given === 'function')
        node.addEventListener(name.replace('on', ''), given);
      else if (!isNothing(given) && given !== false)
        node.setAttribute(name, given === true ? '' : given);
    }
  for (const place of content.querySelectorAll('template'))
    place.replaceWith(...[values[place.dataset.value]].flat().filter(value => !isNothing(value)));
  return content.firstElementChild;
}

// Returns the HTML between the values, parsed once for every place in these scripts: "?2" marks the value of an
// attribute, an element <template> content.
const templates = new Map();
function templateOf(parts) {
  if (templates.has(parts)) return templates.get(parts);
  const template = document.createElement('template');
  template.innerHTML = parts.map(part => part.replace(/\n\s*/g, '')).reduce((before, part, i) => {
    const inTag = before.lastIndexOf('<') > before.lastIndexOf('>');
    return before + (inTag ? `"?${i - 1}" ` : `<template data-value="${i - 1}"></template>`) + part;
  });
  templates.set(parts, template);
  return template;
}

const isNumber = value => typeof value === 'number';

// Values that are missing or not finite become a dash.
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
const swatch = index => html`<span class="swatch" style=${`background: var(--run-${index % 8})`}></span>`;

// rows of cells; a cell is text, a node, or {content, class}.
function table(head, rows) {
  const parts = value => value instanceof Object && !(value instanceof Node) ? value : {content: value};
  const th = (scope, value) => html`<th scope=${scope} class=${parts(value).class}>${parts(value).content}</th>`;
  const td = value => html`<td class=${parts(value).class}>${parts(value).content}</td>`;
  return html`<div class="scroll" tabindex="0"><table>
    <thead><tr>${head.map(value => th('col', value))}</tr></thead>
    <tbody>${rows.map(({cells: [first, ...others], class: kind}) => html`
      <tr class=${kind}>${th('row', first)}${others.map(td)}</tr>`)}</tbody></table></div>`;
}

// The choices of a <select>; by default their values are numbers from 0.
const options =
    (texts, values = texts.keys()) => [...values].map((value, i) => html`<option value=${value}>${texts[i]}</option>`);

// A card of run i with a title and content.
const runCard = (i, title, ...content) => html`<div class="card"><h3>${swatch(i)}${title}</h3>${content}</div>`;
const note = text => html`<p class="note">${text}</p>`;
