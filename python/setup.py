"""Puts the compiled module into the wheel: that of LUCID_BUILD (a build folder that was configured
with -DLUCID_PYTHON=ON), or one that is built here first. Nothing is downloaded."""
import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent


class BuildByCMake(build_ext):
    def build_extension(self, extension):
        build = pathlib.Path(os.environ.get("LUCID_BUILD", SOURCE / "build" / "release"))
        if "LUCID_BUILD" not in os.environ:
            subprocess.run(["cmake", "--preset", "release", "-DLUCID_PYTHON=ON",
                            f"-DPython_EXECUTABLE={sys.executable}"], cwd=SOURCE, check=True)
        subprocess.run(["cmake", "--build", build, "--target", "lucid_python"], check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        made = build / "python" / "lucid" / target.name
        if not made.exists():
            raise SystemExit(f"{made} is not there: was {build} configured for another Python?")
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(made), str(target))
        for library in made.parent.glob("lib*.so.*"):  # a solver that was built for LUCID
            self.copy_file(str(library), str(target.parent / library.name))


version = re.search(r"project\(lucid VERSION ([0-9.]+)",
                    (SOURCE / "CMakeLists.txt").read_text()).group(1)
setup(version=version, ext_modules=[Extension("lucid._lucid", sources=[])],
      cmdclass={"build_ext": BuildByCMake})
