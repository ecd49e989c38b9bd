/**
 * The credentials of the user. They are kept in sessionStorage until the tab is closed, and sent in a header that this page
 * sets, because other sites can make the browser send a cookie, but not this header.
 */

const KEY = "leveret.authorization";

export function authorization() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function remember(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  sessionStorage.setItem(KEY, "Basic " + btoa(String.fromCharCode(...bytes)));
}

export function forget() {
  sessionStorage.clear();
}
