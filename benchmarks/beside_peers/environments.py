"""Makes the virtual environment of each peer, from its requirements file, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".bench"
"""Holds what is kept between runs: environments, filled databases and the figures of the last run."""
REQUIREMENTS = Path(__file__).parent / "requirements"


def python_of(peer: str) -> Path:
    """Return the Python of a peer's environment, creating the environment if its requirements have changed."""
    wanted = (REQUIREMENTS / f"{peer}.txt").read_text()
    environment = KEPT / "environments" / peer
    python, made_for = environment / "bin" / "python", environment / "made-for.txt"
    if made_for.exists() and made_for.read_text() == wanted:
        return python
    print(f"Making an environment for {peer}. This takes a minute, once.", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([python, *install, "-r", REQUIREMENTS / f"{peer}.txt"], check=True)
    subprocess.run([python, "-m", "compileall", "-q", environment / "lib"], check=False, stdout=subprocess.DEVNULL)
    made_for.write_text(wanted)
    return python


def main() -> None:
    """Make all environments."""
    for file in sorted(REQUIREMENTS.glob("*.txt")):
        python_of(file.stem)


if __name__ == "__main__":
    main()
