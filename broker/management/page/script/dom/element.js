/** Elements of the DOM. A child is text or an element, never HTML. */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden"]);

/** Make an element: `h("a", {href: "#/", class: "x", onclick: f}, "text", child)`. Children null and false are left out. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Make an element of SVG. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (PROPERTIES.has(name)) {
      continue;
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...present(children));
  for (const name of PROPERTIES) {
    if (name in properties) {
      element[name] = properties[name]; // after the children: a select has only the values of its options
    }
  }
  return element;
}

function present(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== "");
}

/** Replace the children of an element. Equal ones stay, and keep focus and selection. */
export function show(element, ...children) {
  const wanted = present(children).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child)),
  );
  wanted.forEach((child, place) => {
    const there = element.childNodes[place];
    if (there === undefined) {
      element.append(child);
    } else if (there !== child && !there.isEqualNode(child)) {
      there.replaceWith(child);
    }
  });
  while (element.childNodes.length > wanted.length) {
    element.lastChild.remove();
  }
}

let lastId = 0;

/** A unique id, for labels. */
export function freshId() {
  lastId += 1;
  return `id-${lastId}`;
}
