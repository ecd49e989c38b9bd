// The program `leveret`: that of the option, of LEVERET_PROGRAM, or of the package for this platform.
"use strict";
const { existsSync } = require("node:fs");
const path = require("node:path");
const { LeveretError } = require("./leveret-error.js");

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGE = `leveret-memory-server-${PLATFORM}`;

// Platforms that have a package.
const PACKAGED = ["linux-arm64", "linux-x64"];

function findProgram(given) {
  const named = given ?? process.env.LEVERET_PROGRAM;
  if (named) return named;
  let directory;
  try {
    directory = path.dirname(require.resolve(`${PACKAGE}/package.json`));
  } catch {
    throw new LeveretError(`there is no Leveret for ${PLATFORM} here: ${remedy()}`);
  }
  const program = path.join(directory, "leveret", "leveret");
  if (!existsSync(program)) throw new LeveretError(`${program} is missing: install ${PACKAGE} again`);
  return program;
}

function remedy() {
  const other = "install Leveret by pip and name its program in LEVERET_PROGRAM";
  if (process.platform === "win32") return "it runs on Linux: run the tests in WSL2";
  if (!PACKAGED.includes(PLATFORM)) return `packages are for ${PACKAGED.join(" and ")}; ${other}`;
  return (
    `the optional package ${PACKAGE}, for Linux with glibc, is not installed: npm leaves it out with --omit=optional, ` +
    `and with musl (Alpine); install it, or ${other}`
  );
}

module.exports = { findProgram };
