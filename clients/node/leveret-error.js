// The broker did not start, does not answer, or refuses a request.
"use strict";

class LeveretError extends Error {
  name = "LeveretError";
}

module.exports = { LeveretError };
