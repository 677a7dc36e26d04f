"""Reference pages name every public package; tests/docs builds them and looks for each name."""

from reference_pages import exporting, packages_shown


def test_every_package_with_public_names_has_a_page() -> None:
    shown = packages_shown()
    assert len(exporting()) > 8
    assert set(exporting()) - set(shown) == set()
    assert len(shown) == len(set(shown))
