/** The theme: light, dark, or that of the system. */

const KEY = "leveret.theme";

export const THEMES = { "": "System", light: "Light", dark: "Dark" };

export function theme() {
  return localStorage.getItem(KEY) ?? "";
}

export function setTheme(name) {
  localStorage.setItem(KEY, name);
  applyTheme();
}

export function applyTheme() {
  if (theme()) {
    document.documentElement.dataset.theme = theme();
  } else {
    delete document.documentElement.dataset.theme;
  }
}
