"""The documentation is built, and its reference pages show every public name and its examples."""

import inspect
import os
import re
import subprocess
import sys
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest

import counton.base.errors

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, built as ``make docs`` does: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def references(site: Path) -> dict[str, str]:
    return {page.stem: page.read_text("utf-8") for page in (site / "reference").glob("*.html")}


def stray_prompts(page: str) -> list[str]:
    """Prompts of examples that a page shows as text or quotations, and not as code."""
    text = re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
    return re.findall(r"&gt;&gt;&gt;.*|<blockquote>\s*<blockquote>", text)


def packages_shown() -> list[str]:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    found = [re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE) for page in pages]
    return [name for names in found for name in names]


def exporting() -> list[str]:
    """Packages that say what they export, the first level excepted: its names live below."""
    folder = ROOT / "src" / "counton"
    return [
        ".".join(("counton", *file.parent.relative_to(folder).parts))
        for file in folder.rglob("__init__.py")
        if file.parent != folder and "__all__" in file.read_text("utf-8")
    ]


@pytest.mark.long
@pytest.mark.slow
def test_examples_are_shown_as_code(site: Path) -> None:
    pages = references(site)
    assert {name: stray_prompts(page) for name, page in pages.items() if stray_prompts(page)} == {}
    shown = "".join(unescape(re.sub(r"<[^>]+>", "", page)) for page in pages.values())
    key = counton.Key
    for line in re.findall(r"^ *(>>> .*)$", inspect.getdoc(key) or "", re.MULTILINE):
        assert line in shown


@pytest.mark.parametrize("wrong", ["<p>&gt;&gt;&gt; 1 + 1</p>", "<blockquote>\n<blockquote>1 + 1"])
def test_an_example_shown_as_text_is_noticed(wrong: str) -> None:
    assert stray_prompts(wrong)
    assert not stray_prompts(f"<pre><code>{wrong.replace('<p>', '')}</code></pre>")


@pytest.mark.long
@pytest.mark.slow
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


def test_every_package_with_public_names_has_a_page() -> None:
    shown = packages_shown()
    assert len(exporting()) > 8
    assert set(exporting()) - set(shown) == set()
    assert len(shown) == len(set(shown))
