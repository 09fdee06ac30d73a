// A number with its noun.

export const counted = (number, noun) => `${number} ${noun}${String(number) === "1" ? "" : "s"}`;
