"""Reference pages name every public package; tests/docs builds them and looks for each name."""

import pytest
from reference_pages import exporting, packages_shown, stray_prompts


@pytest.mark.parametrize("wrong", ["<p>&gt;&gt;&gt; 1 + 1</p>", "<blockquote>\n<blockquote>1 + 1"])
def test_an_example_shown_as_text_is_noticed(wrong: str) -> None:
    assert stray_prompts(wrong)
    assert not stray_prompts(f"<pre><code>{wrong.replace('<p>', '')}</code></pre>")


def test_every_package_with_public_names_has_a_page() -> None:
    shown = packages_shown()
    assert len(exporting()) > 8
    assert set(exporting()) - set(shown) == set()
    assert len(shown) == len(set(shown))
