// The colour of a peer, in all views: that of its name. peer-1 to peer-8 have different ones; the names are always beside.
export const COLOURS = 8; // of the style sheet, --peer-0 to --peer-7

function numberOf(name) {
  const [, before, number] = /^(.*?)(\d*)$/s.exec(name);
  if (number) return Number(number) - 1 + COLOURS;
  return [...before].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 65521, 7);
}

// Name of the colour in the style sheet.
export const colourOf = (name) => `peer-${numberOf(name) % COLOURS}`;
