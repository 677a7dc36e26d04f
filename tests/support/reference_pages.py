"""What the reference pages of the documentation have to show, from sources and built pages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def stray_prompts(page: str) -> list[str]:
    """Find prompts of examples that a page shows as text or quotations, and not as code.

    Args:
        page: The page in HTML.

    Returns:
        The texts that are at fault.
    """
    text = re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
    return re.findall(r"&gt;&gt;&gt;.*|<blockquote>\s*<blockquote>", text)


def packages_shown() -> list[str]:
    """List the packages whose public names the reference pages show."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    found = [re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE) for page in pages]
    return [name for names in found for name in names]


def exporting() -> list[str]:
    """List the packages with ``__all__``, but not the first level, whose names live below."""
    folder = ROOT / "src" / "counton"
    return [
        ".".join(("counton", *file.parent.relative_to(folder).parts))
        for file in folder.rglob("__init__.py")
        if file.parent != folder and "__all__" in file.read_text("utf-8")
    ]
