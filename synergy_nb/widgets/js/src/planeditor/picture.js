// Export of the canvas as a picture: SVG that contains the styles of the page, and PNG made from it.

const COPIED_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-dashoffset", "opacity", "fill-opacity", "stroke-opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "visibility"];
const MARGIN = 24; // pixels around the operators

export function svgOf(stage, [width, height], title, background) {
  const copy = stage.cloneNode(true);
  copy.removeAttribute("transform");
  copy.removeAttribute("class");
  const originals = [...stage.querySelectorAll("*")];
  const copies = [...copy.querySelectorAll("*")];
  originals.forEach((original, index) => {
    const target = copies[index];
    const style = getComputedStyle(original);
    if (original.matches(".synergy-flow__handle, .reach, .halo, .preview, title") || style.display === "none") return target.remove();
    for (const name of COPIED_STYLES) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "normal" && value !== "visible" && !(name.endsWith("opacity") && value === "1")) target.setAttribute(name, value);
      else if ((name === "fill" || name === "stroke") && value === "none") target.setAttribute(name, "none");
    }
    for (const { name } of [...target.attributes])
      if (/^(class|style|data-|aria-|tabindex|role)/.test(name)) target.removeAttribute(name);
  });
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const [wide, high] = [width + 2 * MARGIN, height + 2 * MARGIN];
  svg.setAttribute("xmlns", space);
  svg.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${wide} ${high}`);
  svg.setAttribute("width", wide);
  svg.setAttribute("height", high);
  const name = svg.appendChild(document.createElementNS(space, "title"));
  name.textContent = title;
  const ground = svg.appendChild(document.createElementNS(space, "rect"));
  for (const [key, value] of Object.entries({ x: -MARGIN, y: -MARGIN, width: wide, height: high, fill: background })) ground.setAttribute(key, value);
  svg.append(copy);
  return new XMLSerializer().serializeToString(svg);
}

export async function pngOf(svg, scale = 2) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(image.width * scale);
  canvas.height = Math.ceil(image.height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
