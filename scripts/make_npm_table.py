"""A real mixed table with edges: JavaScript packages that well-known ones need, from the registry npm is set up with.

    python scripts/make_npm_table.py FOLDER

Class = topic, by the first keyword of a package that a topic below has; these words are then taken out of the column
`keywords`. Edges = dependencies, also those of development. Files as in scripts/make_tables.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from make_tables import Row, host, write

TOPICS = {
    "styles": "css postcss postcss-plugin sass scss less stylelint stylus autoprefixer style styles",
    "lint": "eslint eslintplugin eslint-plugin eslintconfig eslint-config lint linter linting prettier jshint",
    "tests": "test testing tests jest mocha tap assert assertion coverage karma mock unit chai jasmine",
    "bundles": "webpack webpack-plugin webpack-loader rollup rollup-plugin gulp gulpplugin grunt gruntplugin "
    "browserify browserify-transform bundler bundle vite vite-plugin",
    "syntax": "babel babel-plugin babel-preset ast parser parse typescript transpiler compiler tokenizer sourcemap "
    "source-map markdown",
    "interface": "react react-component vue angular component components ui dom svelte jquery ember "
    "ember-addon preact",
    "network": "http https request server express middleware websocket websockets proxy url fetch rest api",
    "data": "sql mongodb mongoose redis database db leveldb leveldown levelup postgres postgresql mysql orm sqlite",
    "terminal": "cli terminal console command command-line prompt colors ansi tty log logger logging shell",
    "files": "fs file files path paths glob directory stream streams zip tar filesystem dir watch",
    "numbers": "math d3 canvas webgl svg chart charts gis geojson matrix ndarray geometry statistics random",
}
STARTS = (
    "express react react-dom vue @angular/core svelte jquery ember-cli preact next nuxt gatsby webpack rollup "
    "vite gulp grunt browserify parcel eslint prettier stylelint jshint standard xo jest mocha karma chai jasmine "
    "tape ava nyc sinon @babel/core @babel/preset-env typescript acorn esprima recast postcss autoprefixer sass "
    "less stylus cssnano tailwindcss bootstrap axios request got node-fetch koa fastify hapi socket.io ws "
    "http-proxy superagent mongoose mongodb redis ioredis pg mysql mysql2 sequelize knex typeorm level leveldown "
    "sqlite3 prisma commander yargs inquirer chalk ora winston pino bunyan debug glob chokidar fs-extra rimraf "
    "through2 readable-stream archiver tar d3 three chart.js mathjs ndarray geojson-vt mapbox-gl leaflet turf "
    "@turf/turf plotly.js storybook create-react-app react-scripts @vue/cli lerna nx npm yarn pm2 nodemon forever "
    "electron cordova ionic react-native expo material-ui @mui/material antd semantic-ui-react redux mobx rxjs "
    "lodash underscore async bluebird moment date-fns marked remark rehype markdown-it unified highlight.js "
    "handlebars ejs pug mustache puppeteer playwright cypress protractor nightwatch webdriverio testcafe enzyme "
    "passport jsonwebtoken bcrypt helmet cors body-parser multer graphql apollo-server @nestjs/core loopback "
    "sails meteor-node-stubs feathers"
)
NEEDS = ("dependencies", "devDependencies", "peerDependencies")


class Registry:
    """Documents of the registry that npm is set up with."""

    def __init__(self) -> None:
        command = ["npm", "config", "get", "registry"]
        self.base = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().rstrip("/")

    def package(self, name: str) -> tuple[Row, set[str]] | None:
        """The row of a package and the names that its newest version needs; None where there is none."""
        try:
            with urllib.request.urlopen(f"{self.base}/{urllib.parse.quote(name, safe='@')}", timeout=60) as answer:
                return npm_row(name, json.load(answer))
        except (urllib.error.URLError, TimeoutError, ValueError, KeyError, OSError):
            return None


def npm_row(name: str, found: dict[str, Any]) -> tuple[Row, set[str]]:
    newest = found["versions"][found["dist-tags"]["latest"]]
    words = newest.get("keywords") or []
    words = [word.strip().lower() for word in words if isinstance(word, str) and word.strip()]
    size, made, changed = newest.get("dist", {}), found["time"].get("created"), found["time"].get("modified")
    row = {
        "id": name,
        "description": newest.get("description") or None,
        "keywords": [word for word in words if word not in TOPIC_OF] or None,
        "unpacked_size": size.get("unpackedSize"),
        "files": size.get("fileCount"),
        "versions": len(found["versions"]),
        "maintainers": len(found.get("maintainers") or ()),
        "readme_length": len(found.get("readme") or "") or None,
        "licence": text_of(newest.get("license"), "type"),
        "author": text_of(newest.get("author"), "name"),
        "engine": text_of(newest.get("engines"), "node"),
        "homepage_host": host(text_of(newest.get("homepage"), "url")),
        "has_types": bool(newest.get("types") or newest.get("typings")),
        "created": datetime.fromisoformat(made).replace(tzinfo=None) if made else None,
        "changed": changed[:10] if changed else None,
        "label": next((TOPIC_OF[word] for word in words if word in TOPIC_OF), None),
    }
    needs = {need for kind in NEEDS if isinstance(newest.get(kind), dict) for need in newest[kind]}
    return row, needs


TOPIC_OF = {word: topic for topic, words in TOPICS.items() for word in words.split()}


def text_of(value: Any, key: str) -> str | None:
    """A field that is a text, or an object with the text under `key`."""
    found = value.get(key) if isinstance(value, dict) else value
    return found.strip() or None if isinstance(found, str) else None


def npm(most: int = 6000) -> tuple[list[Row], list[tuple[str, str]]]:
    """Packages in STARTS, then what they need, and so on."""
    registry, wave = Registry(), sorted(set(STARTS.split()))
    rows: dict[str, tuple[Row, set[str]]] = {}
    asked = set(wave)
    while wave:
        with ThreadPoolExecutor(12) as pool:
            found = dict(zip(wave, pool.map(registry.package, wave)))
        rows |= {name: row for name, row in found.items() if row}
        wave = sorted({need for _, needs in rows.values() for need in needs} - asked)[: max(0, most - len(asked))]
        asked.update(wave)
        print(f"{len(rows)} of {len(asked)} packages are known", flush=True)
    edges = [(name, need) for name, (_, needs) in rows.items() for need in sorted(needs)]
    return [row for row, _ in rows.values()], edges


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "npm", *npm(), 60)


if __name__ == "__main__":
    main()
