// The program `leveret`: that of the option, of LEVERET_PROGRAM, or of the package for this platform.
"use strict";
const { existsSync } = require("node:fs");
const path = require("node:path");

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGE = `leveret-memory-server-${PLATFORM}`;

function findProgram(given) {
  const named = given ?? process.env.LEVERET_PROGRAM;
  if (named) return named;
  let directory;
  try {
    directory = path.dirname(require.resolve(`${PACKAGE}/package.json`));
  } catch {
    throw new Error(
      `there is no Leveret for ${PLATFORM} here: the package ${PACKAGE} is not installed (it is an optional dependency; ` +
        "there are packages for Linux with glibc, on x64 and arm64); install Leveret in another way and name its " +
        "program in LEVERET_PROGRAM",
    );
  }
  const program = path.join(directory, "leveret", "leveret");
  if (!existsSync(program)) throw new Error(`${program} is missing: install ${PACKAGE} again`);
  return program;
}

module.exports = { findProgram };
