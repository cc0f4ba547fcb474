"""The table of licences is that of the installed packages, and what is claimed of `make demo` and `all` holds."""

import pytest
from helpers.files.licences import (
    COMMAND,
    COPYLEFT,
    FILE,
    PERMISSIVE,
    SOURCE_AVAILABLE,
    UNKNOWN,
    WEAK,
    demo_extras,
    family,
    packages,
    requirements,
    rows,
)


@pytest.mark.slow
def test_the_table_of_licences_is_that_of_the_installed_packages():
    written = FILE.read_text(encoding="utf-8")
    missing = [row for row in rows() if row not in written.splitlines()]
    assert not missing, f"the licences of what extras install changed: read them, then run {COMMAND}"


@pytest.mark.slow
def test_every_licence_is_known():
    unknown = [package for package in packages(requirements().keys() - {""}) if package.family == UNKNOWN]
    assert not unknown, f"read their licence files, add them to READ in helpers/files/licences.py, then run {COMMAND}"


@pytest.mark.slow
def test_the_demo_brings_no_gpl_and_nothing_that_is_only_source_available():
    assert {package.family for package in packages(demo_extras())} == {WEAK}


@pytest.mark.slow
def test_all_brings_no_gpl():
    assert [package for package in packages(["all"]) if package.family == COPYLEFT] == []
    assert [package.name for package in packages(["textworld"]) if package.family == COPYLEFT] == ["jericho"]


@pytest.mark.parametrize(
    ("licence", "found"),
    [
        ("MIT License", PERMISSIVE),
        ("GNU General Public License v2 or later (GPLv2+)", COPYLEFT),
        ("AGPL-3.0-only", COPYLEFT),
        ("LGPL-3.0-only", WEAK),
        ("MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later", WEAK),
        ("GPL-3.0-or-later OR MIT", PERMISSIVE),
        ("MPL-2.0 AND MIT", WEAK),
        ("Elastic-2.0", SOURCE_AVAILABLE),
        ("Other/Proprietary License", SOURCE_AVAILABLE),
        ("see the file", UNKNOWN),
    ],
)
def test_licences_are_of_their_family(licence: str, found: str):
    assert family(licence) == found
