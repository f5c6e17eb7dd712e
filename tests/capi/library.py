"""The shared library under the two names that an installed one has: programs are linked by the one, and find it by the other."""

import re
import shutil
import subprocess


def placed(built, folder):
    """Copies what cargo has left in the folder `built`, and returns `folder`, for -L and for the loader."""
    said = subprocess.run(["readelf", "-dW", built / "libharrier.so"], capture_output=True, text=True, check=True)
    soname = re.search(r"\(SONAME\).*\[(libharrier\.so\.\d+)\]", said.stdout)[1]
    folder.mkdir(exist_ok=True)
    shutil.copy(built / "libharrier.so", folder / soname)
    (folder / "libharrier.so").unlink(missing_ok=True)
    (folder / "libharrier.so").symlink_to(soname)
    return folder
