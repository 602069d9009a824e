"""Builds the wheel and the source distribution without a network, installs the wheel into an empty virtual environment
and uses it there. Then installs the package by the commands of docs/python.md. usage: wheel.py SOURCE MODULE FOLDER"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

source, module, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
tree = folder / "tree"  # setuptools writes into the tree that it builds: not into the one that is tested
tree.mkdir()
for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "CMakeLists.txt", "CMakePresets.json", "LICENSE"):
    shutil.copy(source / name, tree / name)
for name in ("cmake", "docs", "include", "src", "viewer"):
    shutil.copytree(source / name, tree / name)

backend = f"""
from setuptools import build_meta
print(build_meta.build_wheel({str(folder)!r}))
print(build_meta.build_sdist({str(folder)!r}))
"""
environment = dict(os.environ, BERTH_MODULE=str(module))
subprocess.run([sys.executable, "-c", backend], cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)

(wheel,) = folder.glob("*.whl")
names = zipfile.ZipFile(wheel).namelist()
for name in ("berth/__init__.py", "berth/py.typed", "berth/_core.pyi"):
    assert name in names, f"{name} is not in {names}"
assert any(name.startswith("berth/_core.") and name.endswith(".so") for name in names), names
metadata = next(name for name in names if name.endswith("/METADATA"))
lines = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
for line in ("License: Apache-2.0", "Author: The Berth authors", "Classifier: Typing :: Typed"):
    assert line in lines, f"{line} is not in {metadata}"
(archive,) = folder.glob("*.tar.gz")
held = {name.split("/", 1)[1] for name in tarfile.open(archive).getnames() if "/" in name}
# A build from it needs every file of the sources.
for top in ("cmake", "include", "src", "viewer"):
    for file in (source / top).rglob("*"):
        name = str(file.relative_to(source))
        assert not file.is_file() or "__pycache__" in name or name in held, f"{name} is not in {archive}"

place = folder / "venv"
subprocess.run([sys.executable, "-m", "venv", place], check=True)
python = place / "bin" / "python"
subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
program = """
import berth, pickle
p = berth.Problem.from_arrays([4, 6], [0, 0], [1, 1])
plan = pickle.loads(pickle.dumps(p.solve()))
assert (plan.arena, sorted(memoryview(plan))) in ((10, [0, 4]), (10, [0, 6])), plan
assert berth.__file__.startswith(PLACE), berth.__file__
print(berth.__version__)
""".replace("PLACE", repr(str(place)))
environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
subprocess.run([python, "-c", program], cwd=folder, env=environment, check=True)

# The documented commands, with this interpreter and without a package index. pip fails if it wants to download anything.
page = (source / "docs" / "python.md").read_text()
commands = [line for line in page.splitlines() if re.match(r"/usr/bin/python3 -m venv|venv/bin/pip install", line)]
assert len(commands) == 2, commands
environment.update(BERTH_MODULE=str(module), PIP_NO_INDEX="1")
for command in commands:
    subprocess.run(command.replace("/usr/bin/python3", sys.executable), shell=True, cwd=tree, env=environment, check=True,
                   stdout=subprocess.DEVNULL)
program = program.replace(repr(str(place)), repr(str(tree / "venv")))
subprocess.run([tree / "venv" / "bin" / "python", "-c", program], cwd=folder, env=environment, check=True)
shutil.rmtree(folder)
