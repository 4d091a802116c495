"""Writes what is installed beside this Python, and under it, as a CycloneDX 1.6 document.

    python servers/image/sbom.py --version 0.1.0 sbom.cdx.json

Python packages are read from their metadata, also those that the base image has under /usr/local (pip), those of Debian
from dpkg's list; Python itself is listed too, since the base image may have built it. There is no time and no random
number in the document: an image made twice from the same packages has the same one. The version is compared with that
of the package, so that an image cannot be labelled with another.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

DPKG = Path("/var/lib/dpkg/status")
BASE = Path("/usr/local/lib")
RELEASE = Path("/etc/os-release")


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", help="what the suite's version has to be")
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    form = document()
    found = form["metadata"]["component"]["version"]
    if asked.version not in (None, found):
        sys.exit(f"the image is to be labelled {asked.version}, but the wheel is agentenvs {found}: mend ARG VERSION")
    asked.file.write_text(json.dumps(form, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def document() -> dict[str, Any]:
    """Return the document, ready for JSON.

    The format: https://cyclonedx.org/docs/1.6/json/, package URLs: https://github.com/package-url/purl-spec.
    """
    python = {part["name"]: part for part in map(_of_python, distributions())}
    own = python.pop("agentenvs")
    parts = [python[name] for name in sorted(python)]
    of_base = distributions(path=sorted(map(str, BASE.glob("python3*/site-packages"))))
    known = {part["purl"] for part in parts}
    parts += sorted(
        (part for part in map(_of_python, of_base) if part["purl"] not in known), key=lambda part: part["purl"]
    )
    parts.append(_of_interpreter())
    if DPKG.is_file():
        parts += sorted(_of_debian(DPKG.read_text(encoding="utf-8")), key=lambda part: str(part["name"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": parts,
    }


def _of_python(found: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
    part: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": found.version,
        "bom-ref": f"pkg:pypi/{name}@{found.version}",
        "purl": f"pkg:pypi/{name}@{found.version}",
    }
    if expression := found.metadata.get("License-Expression"):
        part["licenses"] = [{"expression": expression}]
    elif (told := (found.metadata.get("License") or "").strip()) and "\n" not in told:
        part["licenses"] = [{"license": {"name": told}}]
    return part


def _of_interpreter() -> dict[str, Any]:
    version = platform.python_version()
    purl = f"pkg:generic/python@{version}"
    return {"type": "application", "name": "python", "version": version, "bom-ref": purl, "purl": purl}


def _of_debian(status: str) -> Iterator[dict[str, Any]]:
    distribution = _release()
    for block in status.split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", block, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            name, version, kind = fields["Package"], fields["Version"], fields["Architecture"]
            purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={kind}&distro={distribution}"
            yield {"type": "library", "name": name, "version": version, "bom-ref": purl, "purl": purl}


def _release() -> str:
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', RELEASE.read_text(encoding="utf-8"), re.MULTILINE))
    return f"{fields.get('ID', 'linux')}-{fields.get('VERSION_ID', 'unknown')}"


if __name__ == "__main__":
    main()
