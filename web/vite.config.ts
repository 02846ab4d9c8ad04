import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;

/** What the page is made of. tests/fronts/ui/test_build.py works out the same sum. */
const SOURCES = ["src", "public", "index.html", "vite.config.ts", "tsconfig.json", "package.json", "package-lock.json"];

function listed(path: string): string[] {
  try {
    const found = readdirSync(path, { withFileTypes: true });
    return found.flatMap((one) => listed(join(path, one.name)));
  } catch {
    return [path];
  }
}

/** The sum of the sources goes into the build: a checkout without Node can tell whether the two belong together. */
function stamp(): Plugin {
  return {
    name: "stamp",
    apply: "build",
    generateBundle() {
      const files = SOURCES.flatMap((name) => listed(join(here, name))).filter((path) => !path.includes(".test."));
      const named = files.map((path) => [relative(here, path).replaceAll("\\", "/"), path] as const);
      named.sort(([a], [b]) => (a < b ? -1 : 1));
      const sum = createHash("sha256");
      for (const [name, path] of named) {
        sum.update(`${name}\0${createHash("sha256").update(readFileSync(path)).digest("hex")}\n`);
      }
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${sum.digest("hex")}\n` });
    },
  };
}

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  plugins: [stamp()],
  build: {
    outDir: "../src/ebbtide/fronts/ui/static",
    emptyOutDir: true,
    target: "es2022",
    // One script and one sheet under plain names: the server sends no-store, and a diff shows what changed.
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        assetFileNames: (asset) => (asset.names[0]?.endsWith(".css") ? "app.css" : "[name][extname]"),
      },
    },
    cssCodeSplit: false,
    modulePreload: false,
  },
});
