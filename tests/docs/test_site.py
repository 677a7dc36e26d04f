"""The documentation is built, and its reference pages show every public name and its examples."""

import inspect
import os
import re
import subprocess
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest
from reference_pages import exporting, stray_prompts

import counton

ROOT = Path(__file__).parents[2]
#: The folder of the program mkdocs, which `make test-docs` installs.
TOOLS = os.environ.get("COUNTON_DOCS_TOOLS")
pytestmark = pytest.mark.skipif(TOOLS is None, reason="run by: make test-docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, built as ``make docs`` does: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    assert TOOLS is not None
    command = [str(ROOT / TOOLS / "mkdocs"), "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": "src"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def references(site: Path) -> dict[str, str]:
    return {page.stem: page.read_text("utf-8") for page in (site / "reference").glob("*.html")}


def test_examples_are_shown_as_code(site: Path) -> None:
    pages = references(site)
    assert {name: stray_prompts(page) for name, page in pages.items() if stray_prompts(page)} == {}
    shown = "".join(unescape(re.sub(r"<[^>]+>", "", page)) for page in pages.values())
    key = counton.Key
    for line in re.findall(r"^ *(>>> .*)$", inspect.getdoc(key) or "", re.MULTILINE):
        assert line in shown


def test_every_public_name_has_its_place(site: Path) -> None:
    places = [
        place for page in references(site).values() for place in re.findall(r' id="(.*?)"', page)
    ]
    for package in exporting():
        module = import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                known = [f"{package}.{name}", f"{thing.__module__}.{name}"]
                assert sum(places.count(place) for place in set(known)) == 1, known
