"""The wheel holds every folder and works outside the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("state", "adapters", "nodes", "graphs", "runtime", "evaluation")


@pytest.mark.long
@pytest.mark.slow
def test_wheel_runs_outside_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(checkout)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for folder in FOLDERS:
        assert f"certigraph/{folder}/__init__.py" in names
    assert "certigraph/py.typed" in names
    assert "certigraph/evaluation/published/sdp.json" in names
    assert "certigraph/cli/templates/agent.py.txt" in names
    assert {"certigraph/runtime/templates/run.html", "certigraph/evaluation/templates/comparison.css"} <= {*names}
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import certigraph; print(certigraph.__file__); "
    code += "from certigraph.runtime.report import write_report; from pathlib import Path; "
    code += "result = certigraph.run('sdp', 'blocksworld', '3-1', out='runs'); print(result.ending); "
    code += "print('goal certified' in write_report(result.trajectory, Path('report.html')).read_text('utf-8'))"
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert str(site) in printed
    assert printed.split()[-2:] == ["goal", "True"]
