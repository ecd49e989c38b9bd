/**
 * The credentials of the user who has logged in. They live as long as the browser's tab, in sessionStorage, and go with each
 * request in a header that this page sets: no other site can have the browser send them, as it could a cookie.
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
