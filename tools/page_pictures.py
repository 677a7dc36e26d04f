"""Pictures of the service's page for its documentation: `make screenshots`.

Departures arrive as in `make demo-live`, for two minutes; then the page is shown on a desk and on a
telephone, light and dark.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any

from examples.live import begun
from papers.drawing import shrink
from tools.browser import Page, browsing, watching

#: How fast the departures of some days arrive, and after how many seconds the pictures are taken.
_DAYS, _TIMES, _AFTER = 3, 2000, 115
#: Name, width and height of the window, theme, pixels for each of its own, and whether the page
#: is shown from its top to its end.
_PICTURES = (
    ("desktop-light", 1280, 900, "light", 1, True),
    ("desktop-dark", 1280, 860, "dark", 1, False),
    ("phone-light", 360, 780, "light", 2, False),
    ("phone-dark", 360, 780, "dark", 2, False),
)


def draw(folder: Path, url: str, browser: Any) -> list[Path]:
    """Take pictures of the page on a desk and on a telephone, light and dark; return their paths.

    Args:
        folder: folder of the pictures.
        url: address of a service with the streams of the demonstration.
        browser: the browser from `browsing`.
    """
    made = []
    for name, width, height, scheme, pixels, whole in _PICTURES:
        options: dict[str, Any] = {
            "viewport": {"width": width, "height": height},
            "color_scheme": scheme,
            "device_scale_factor": pixels,
            "reduced_motion": "reduce",
        }
        with watching(browser, url, **options) as watched:
            made.append(folder / f"page-{name}.png")
            _show(watched, name).screenshot(path=made[-1], full_page=whole)
        shrink(made[-1])
    return made


def _show(watched: Page, name: str) -> Any:
    page = watched.open("departures")
    if name == "desktop-dark":
        page.get_by_role("radio", name="Windows").check()
        watched.until("document.querySelector('#chart-title').textContent === 'In each window'")
    if name == "phone-dark":
        page.locator(".chart-card").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('.chart-card').scrollIntoView()")
    page.wait_for_timeout(1500)
    return page


def main() -> None:
    """Run the demonstration for two minutes, and write pictures of its page into a folder."""
    parser = argparse.ArgumentParser(prog="python -m tools.page_pictures", description=__doc__)
    parser.add_argument("folder", type=Path, help="where they go")
    parser.add_argument("--state", type=Path, default=Path("demo/live"), help="for the service")
    asked = parser.parse_args()
    with begun(asked.state, _DAYS, _TIMES) as (url, send), browsing() as browser:
        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(_AFTER)
        draw(asked.folder, url, browser)
        sending.join()


if __name__ == "__main__":
    main()
