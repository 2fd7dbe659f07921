// Renders the equations on a page.
document.addEventListener('DOMContentLoaded', () => {
  for (const e of document.querySelectorAll('.equation'))
    katex.render(e.textContent, e, {displayMode: e.tagName === 'DIV'});
});
