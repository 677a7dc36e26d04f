"""One word checks whatever there is, and a plug-in of pytest checks what others write."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from counton.base.errors import InvalidInput
from counton.laws import LawBroken, check
from counton.statistics import Count, Sum
from counton.strategies import Binary
from counton.tables import Haar

EXAMPLES = Path(__file__).parents[2] / "examples"


class Wrong(Binary):
    """Less sensitive than its columns are."""

    def l1_sensitivity(self) -> Fraction:
        return Fraction(1)


@pytest.mark.parametrize("subject", [Binary, Binary(3)], ids=str)
def test_what_is_right_passes(subject: object) -> None:
    check(subject)


def test_what_is_wrong_is_found() -> None:
    with pytest.raises(LawBroken, match="largest 1-norm"):
        check(Wrong(2))


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (Count(), "give the events of each step"),
        (7, "no laws for 7"),
        (Sum, "has no examples"),
        (Haar, "has no examples"),
    ],
    ids=str,
)
def test_what_has_no_laws_is_refused(subject: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check(subject)


def test_the_plugin_of_pytest_checks_classes_of_others(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import counton_above\n"
        "class Twice(counton_above.Above):\n"
        "    def entries(self, said):\n"
        "        return [(0, 2 * said)]\n"
    )
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "counton.laws.pytest_plugin",
            "-p", "no:randomly", "-p", "no:cacheprovider", "--statistic=counton_above:Above",
            "--statistic=wrong:Twice",
            "--strategy=counton_blocks:Blocks", "--rootdir", str(tmp_path),
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": f"{EXAMPLES / 'above'}:{EXAMPLES / 'blocks'}:{tmp_path}", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout
    assert "LawBroken: Twice(" in done.stdout
    assert "laws of wrong:Twice" in done.stdout
