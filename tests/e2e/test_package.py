"""Tests the packages of tools/package: each is unpacked or installed in a fresh place and answers a question there."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/package"
QUESTION = ("run", "tiny", "--temperature", "0", "-p", "What is 17 + 25?")
ANSWER = "17 + 25 = 42.\n"


def run(*command, **more):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **more)


def succeed(*command, **more):
    done = run(*command, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages():
    """Builds the packages from the objects of the release build and returns their paths."""
    done = subprocess.run([ROOT / "tools/package", "--cpu"], capture_output=True, text=True, timeout=1200)
    if done.returncode == 3:
        pytest.skip("tools/package could not download its tools")
    assert done.returncode == 0, done.stderr
    return [ROOT / line for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    [archive] = [path for path in packages if path.name.endswith(".tar.zst")]
    folder = tmp_path_factory.mktemp("unpacked")
    succeed("tar", "-C", folder, "-xf", archive)
    return folder / archive.name.removesuffix(".tar.zst")


def test_the_archive_answers_a_question(unpacked, tmp_path):
    assert succeed(unpacked / "bin/nibble", *QUESTION, cwd=tmp_path) == ANSWER


def test_the_program_runs_with_a_glibc_that_lacks_newer_functions(unpacked):
    """Simulates an old glibc: changes the name of the function that the program looks up at run time."""
    program = unpacked / "bin/nibble"
    old = unpacked / "bin/nibble-old-glibc"
    text = program.read_bytes()
    assert text.count(b"pthread_cond_clockwait\0") == 1
    old.write_bytes(text.replace(b"pthread_cond_clockwait\0", b"pthread_cond_clockwaiX\0"))
    old.chmod(0o755)
    assert succeed(old, *QUESTION) == ANSWER


def test_the_archive_has_a_licence_of_everything_that_is_linked(unpacked):
    licences = {path.name for path in (unpacked / "share/doc/nibble/licences").iterdir()}
    assert {"libstdc++-12-dev", "libunwind", "libspdlog-dev", "prometheus-cpp-dev", "libsodium-dev", "libcli11-dev", "libjs-katex", "libjs-highlight.js"} < licences
    assert all(path.stat().st_size > 0 for path in (unpacked / "share/doc/nibble/licences").iterdir())


def test_the_list_of_parts_names_every_licence(unpacked):
    document = json.loads((unpacked / "share/doc/nibble/nibble.spdx.json").read_text())
    assert document["spdxVersion"] == "SPDX-2.3" and document["documentNamespace"].startswith("urn:")
    nibble, *parts = document["packages"]
    program = hashlib.sha256((unpacked / "bin/nibble").read_bytes()).hexdigest()
    assert nibble["checksums"] == [{"algorithm": "SHA256", "checksumValue": program}]
    licences = {path.name for path in (unpacked / "share/doc/nibble/licences").iterdir()}
    assert licences - {"libunwind"} <= {part["name"] for part in parts} and all(part["versionInfo"] for part in parts)
    linked = [row["relatedSpdxElement"] for row in document["relationships"] if row["relationshipType"] == "STATIC_LINK"]
    assert linked == [part["SPDXID"] for part in parts] and len(set(linked)) == len(linked)


def test_checksums_are_those_of_the_packages(packages):
    succeed("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=PACKAGES)
    listed = {line.split()[1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines()}
    assert {path.name for path in packages} < listed


def test_the_version_is_the_same_everywhere(packages, unpacked):
    [version] = re.findall(r"^project\(nibble VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert succeed(unpacked / "bin/nibble", "--version").startswith(f"nibble {version}, commit ")
    assert all(re.search(rf"[-_]{re.escape(version)}[-_]", path.name) for path in packages)
    [newest, *_] = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == version
    documented = re.findall(r"build/package/(\S+)", (ROOT / "docs/install.md").read_text())
    assert {path.name for path in packages} == {name for name in documented if name != "`"}


# Installs the package in a copy of this machine's system: an overlay, whose upper layer has the changes.
IN_A_COPY = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/system"
mount -t proc proc "$1/system/proc"
cp "$2" "$1/system/nibble.deb"
chroot "$1/system" dpkg -i /nibble.deb >&2
chroot "$1/system" /usr/bin/nibble run tiny --temperature 0 -p 'What is 17 + 25?'
chroot "$1/system" /usr/bin/nibble serve --config /etc/nibble/nibble.conf --check | head -n 1
chroot "$1/system" getent passwd nibble
chroot "$1/system" dpkg -r nibble >&2
chroot "$1/system" find /etc/nibble /usr/bin/nibble /usr/share/nibble 2>/dev/null || true
echo "after purge:"
chroot "$1/system" dpkg -P nibble >&2
rm "$1/system/nibble.deb"
cd "$1/upper"
find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' | sort | while read -r file; do
  cmp -s "$file" "/$file" || echo "$file"
done
find . -name '*nibble*' ! -path './var/lib/dpkg/*'
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount")
def test_the_debian_package_installs_and_leaves_nothing(packages, tmp_path):
    [package] = [path for path in packages if path.suffix == ".deb"]
    if run("unshare", "-m", "bash", "-c", IN_A_COPY.partition("mount -t proc")[0], "bash", tmp_path).returncode:
        pytest.skip("overlays cannot be mounted here")
    told = succeed("unshare", "-m", "bash", "-c", IN_A_COPY, "bash", tmp_path, package)
    used, _, left = told.partition("after purge:\n")
    answer, checked, user, *kept = used.splitlines()
    assert answer + "\n" == ANSWER and checked == "tiny can be served."
    assert re.fullmatch(r"nibble:x:\d+:\d+::/nonexistent:/usr/sbin/nologin", user)
    assert kept == ["/etc/nibble", "/etc/nibble/nibble.conf"]
    # useradd and userdel keep backups of the lists of users and groups, which stay.
    backups = {"./etc/passwd-", "./etc/group-", "./etc/shadow-", "./etc/gshadow-", "./etc/subuid-", "./etc/subgid-"}
    assert set(left.splitlines()) <= backups


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_the_unit_of_the_debian_package_is_valid_and_hardened(packages, tmp_path):
    [package] = [path for path in packages if path.suffix == ".deb"]
    succeed("dpkg-deb", "-x", package, tmp_path)
    unit = tmp_path / "lib/systemd/system/nibble.service"
    text = unit.read_text()
    assert "\nExecStart=/usr/bin/nibble serve --config /etc/nibble/nibble.conf\n" in text and "\nUser=nibble\n" in text
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", unit)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture(scope="module")
def venv(packages, tmp_path_factory):
    [wheel] = [path for path in packages if path.suffix == ".whl"]
    folder = tmp_path_factory.mktemp("venv")
    succeed(sys.executable, "-m", "venv", folder)
    succeed(folder / "bin/pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel)
    return folder / "bin"


def test_the_wheel_has_the_command(venv):
    assert succeed(venv / "nibble", *QUESTION) == ANSWER


SERVER = """
import json, urllib.request
import nibble_gpt_oss

with nibble_gpt_oss.Server("tiny", ["--context", "2048"]) as server:
    body = {"messages": [{"role": "user", "content": "What is 17 + 25?"}], "temperature": 0}
    request = urllib.request.Request(server.base_url + "/chat/completions", json.dumps(body).encode())
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
try:
    urllib.request.urlopen(server.base_url + "/models")
except OSError:
    print("ended")
try:
    nibble_gpt_oss.Server("no-such-model")
except nibble_gpt_oss.ServerError as error:
    print(error)
"""


def test_python_starts_a_server_and_gets_its_url(venv):
    answer, ended, error = succeed(venv / "python", "-c", SERVER).splitlines()
    assert answer + "\n" == ANSWER and ended == "ended"
    assert error.startswith("nibble: model 'no-such-model' not found")
