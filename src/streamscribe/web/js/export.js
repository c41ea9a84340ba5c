// Takes text out of the page: to the clipboard and to files.

/** Without the clipboard's API, which pages over plain http lack, by a selection as in the old days. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const focused = document.activeElement;
  const area = document.createElement('textarea');
  area.className = 'visually-hidden';
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
  return focused?.focus();
}

export function download(name, text, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
