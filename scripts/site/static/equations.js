// Draws the equations of a page.
document.addEventListener('DOMContentLoaded', () => {
  for (const e of document.querySelectorAll('.equation'))
    katex.render(e.textContent, e, {displayMode: e.tagName === 'DIV'});
});
