"""Builds the wheel and the source archive of weirlimit (PEP 517) with the standard library alone.

setuptools was the alternative. It is not part of Python, so a build without a network would fail.
The files are the same, byte by byte, for the same sources.
"""

import base64
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "weirlimit"
VERSION = re.search(r'__version__ = "(.+)"', (SOURCES / "__init__.py").read_text())[1]
NAME = f"weirlimit-{VERSION}"
BUILT = 315_532_800  # 1980-01-01, the first time that a zip file can hold

METADATA = f"""\
Metadata-Version: 2.1
Name: weirlimit
Version: {VERSION}
Summary: Exact rolling-window rate limits, shared by all processes, decided by weir serve
License: Apache-2.0
Project-URL: Source, https://github.com/weirlimit/weir
Keywords: rate limit,limiter,throttle,flask,fastapi,starlette,django,quota
Classifier: Framework :: AsyncIO
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Internet :: WWW/HTTP :: WSGI :: Middleware
Classifier: Typing :: Typed
Requires-Python: >=3.9
Provides-Extra: limits
Requires-Dist: limits>=2.8; extra == "limits"
Description-Content-Type: text/markdown

"""

WHEEL = """\
Wheel-Version: 1.0
Generator: weirlimit packing
Root-Is-Purelib: true
Tag: py3-none-any
"""


def metadata():
    """Returns the metadata with the README as its description."""
    return METADATA.encode() + (ROOT / "README.md").read_bytes()


def sources():
    """Returns the files of the package, by their names below src."""
    files = [*SOURCES.glob("*.py"), SOURCES / "py.typed"]
    return {f"weirlimit/{file.name}": file.read_bytes() for file in sorted(files)}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel, and returns its name."""
    return write_wheel(wheel_directory, sources())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes a wheel that leads to the sources, and returns its name."""
    return write_wheel(wheel_directory, {"weirlimit.pth": f"{SOURCES.parent}\n".encode()})


def write_wheel(directory, files):
    """Writes files and the metadata as a wheel."""
    info = f"{NAME}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": metadata(),
        f"{info}/WHEEL": WHEEL.encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = "".join(record_line(name, data) for name, data in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, data in files.items():
            entry = zipfile.ZipInfo(file)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    return name


def record_line(name, data):
    """Returns the line of a file in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def build_sdist(sdist_directory, config_settings=None):
    """Writes the source archive, and returns its name."""
    files = {"PKG-INFO": metadata()}
    for name in ("LICENSE", "README.md", "pyproject.toml", "packing/packing.py"):
        files[name] = (ROOT / name).read_bytes()
    files.update({f"src/{name}": data for name, data in sources().items()})
    name = f"{NAME}.tar.gz"
    with open(Path(sdist_directory) / name, "wb") as out:
        with gzip.GzipFile("", "wb", fileobj=out, mtime=BUILT) as packed:
            with tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive:
                for file, data in files.items():
                    entry = tarfile.TarInfo(f"{NAME}/{file}")
                    entry.size, entry.mtime = len(data), BUILT
                    archive.addfile(entry, io.BytesIO(data))
    return name


if __name__ == "__main__":  # python3 packing/packing.py writes both into dist
    (ROOT / "dist").mkdir(exist_ok=True)
    for build in (build_wheel, build_sdist):
        print(ROOT / "dist" / build(ROOT / "dist"))
