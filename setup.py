"""What pyproject.toml cannot say: the version stands in CMakeLists.txt, and CMake builds the extension module.

BERTH_MODULE names one that is built already, which is then packed as it is; CMAKE_ARGS holds further options of CMake.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = pathlib.Path(__file__).resolve().parent
version = re.search(r"^project\(berth VERSION ([0-9.]+)", (here / "CMakeLists.txt").read_text(), re.MULTILINE)
if version is None:
    raise SystemExit("setup.py: CMakeLists.txt does not say the version")

NOT_NEEDED = ("TOOL", "TESTS", "BENCH", "EXAMPLES", "OPENCL", "ASCEND")


class build_by_cmake(build_ext):
    def build_extension(self, ext):
        to = pathlib.Path(self.get_ext_fullpath(ext.name))
        to.parent.mkdir(parents=True, exist_ok=True)
        built = os.environ.get("BERTH_MODULE")
        shutil.copy(built or self.by_cmake(), to)

    def by_cmake(self):
        folder = pathlib.Path(self.build_temp).resolve() / "berth"
        configure = ["cmake", "-S", str(here), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
        configure += [f"-DPython3_EXECUTABLE={sys.executable}"] + [f"-DBERTH_{part}=OFF" for part in NOT_NEEDED]
        configure += ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(configure + shlex.split(os.environ.get("CMAKE_ARGS", "")), check=True)
        jobs = str(self.parallel or os.cpu_count() or 1)
        subprocess.run(["cmake", "--build", str(folder), "--target", "berth_python", "--parallel", jobs], check=True)
        return next((folder / "python" / "berth").glob("_core*.so"))


setup(version=version[1], ext_modules=[Extension("berth._core", [])], cmdclass={"build_ext": build_by_cmake})
