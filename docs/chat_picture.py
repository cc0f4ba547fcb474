"""Photograph an agent in a chat client: `langgraph dev` serves it, and a page shows its messages by useStream.

    python docs/chat_picture.py docs/images/chat.png

Needs npm, and Chromium as CERTIGRAPH_BROWSER or on the path. A script plays the agent's model.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from urllib.parse import quote

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"
sys.path.insert(0, str(TESTS))

from helpers.servers.dev_server import serving  # noqa: E402 - found by the path above
from helpers.worlds.support_database import GOAL  # noqa: E402

PACKAGES = ("@langchain/langgraph-sdk@2.0.0", "@langchain/core", "react@19", "react-dom@19", "esbuild")
SIZE = {"width": 760, "height": 340}
STYLE = """
body { font: 15px/1.4 sans-serif; margin: 16px; background: #fcfcfa; color: #262626; display: grid; gap: 8px }
p, pre { margin: 0; white-space: pre-wrap } pre, code { font: 13px/1.5 monospace; display: block }
.human { justify-self: end; background: #e4ecf5; border-radius: 8px; padding: 8px 12px }
pre { margin-left: 16px; padding-left: 8px; border-left: 3px solid #1e783c } pre.error { border-color: #be2828 }
footer { color: #5a5a5a; font-size: 13px }
"""


def main(path: Path) -> None:
    """Serve an agent and the page, and write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle_client(folder)
        module = TESTS / "helpers" / "servers" / "served_agents.py"
        config = {"dependencies": ["."], "graphs": {"sdp": f"{module}:sdp"}, "python_version": "3.11"}
        (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
        variables = {"PYTHONPATH": str(TESTS), "SUPPORT_DATABASE": str(folder / "support.sqlite")}
        handler = functools.partial(SimpleHTTPRequestHandler, directory=folder / "page")
        with serving(folder, variables) as server, ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
            threading.Thread(target=pages.serve_forever, daemon=True).start()
            given = quote(json.dumps([str(server.base_url), "sdp", GOAL]))
            take_picture(f"http://127.0.0.1:{pages.server_port}/#{given}", path)
            pages.shutdown()


def bundle_client(folder: Path) -> None:
    """Install the SDK and React in a folder, and write the page and its script into `page`."""
    (folder / "page").mkdir()
    (folder / "chat_client.jsx").write_bytes((DOCS / "chat_client.jsx").read_bytes())
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, check=True)
    options = ["--bundle", "--jsx=automatic", "--outfile=page/chat.js"]
    subprocess.run(["npx", "esbuild", "chat_client.jsx", *options], cwd=folder, check=True)
    page = f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style><body><script src="chat.js"></script>'
    (folder / "page" / "index.html").write_text(page, encoding="utf-8")


def take_picture(address: str, path: Path) -> None:
    """Open the page, wait until it shows how the work ended, and photograph it."""
    browser_path = os.environ.get("CERTIGRAPH_BROWSER") or which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=2)
        page.goto(address)
        page.wait_for_function("document.title === 'goal'")
        page.screenshot(path=path, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
