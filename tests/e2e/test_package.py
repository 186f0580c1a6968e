"""Tests the packages of tools/package: each is unpacked or installed in a fresh place and answers a question there."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

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


def build_packages(*flags):
    done = subprocess.run([ROOT / "tools/package", *flags], capture_output=True, text=True, timeout=1200)
    if done.returncode == 3:
        pytest.skip("tools/package could not download its tools")
    assert done.returncode == 0, done.stderr
    return [ROOT / line for line in done.stdout.splitlines()]


def only(packages, ending):
    [package] = [path for path in packages if path.name.endswith(ending)]
    return package


def deb(packages, name):
    [package] = [path for path in packages if path.name.startswith(f"{name}_") and path.suffix == ".deb"]
    return package


@pytest.fixture(scope="module")
def packages():
    """Builds the packages from the objects of the release build and returns their paths."""
    return build_packages("--cpu")


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    archive = only(packages, ".tar.zst")
    folder = tmp_path_factory.mktemp("unpacked")
    succeed("tar", "-C", folder, "-xf", archive)
    return folder / archive.name.removesuffix(".tar.zst")


def test_the_archive_answers_a_question(unpacked, tmp_path):
    assert succeed(unpacked / "bin/nibble", *QUESTION, cwd=tmp_path) == ANSWER


def test_from_the_archive_to_the_first_answer_takes_less_than_five_seconds(packages, tmp_path):
    started = time.monotonic()
    archive = only(packages, ".tar.zst")
    succeed("tar", "-C", tmp_path, "-xf", archive)
    assert succeed(tmp_path / archive.name.removesuffix(".tar.zst") / "bin/nibble", *QUESTION) == ANSWER
    assert time.monotonic() - started < 5


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


def test_the_sizes_are_those_of_the_promise(packages):
    """The CPU program in less than 10 MB; the miniature, which hardly compresses, is a package of its own."""
    assert deb(packages, "nibble").stat().st_size < 10_000_000
    assert all(path.stat().st_size < 20_000_000 for path in packages)


def test_a_second_build_has_the_same_bytes(packages):
    before = (PACKAGES / "SHA256SUMS").read_text()
    built = ROOT / "build/release/tools/packaging"
    for path in built.rglob("*"):  # compiled and linked again; ccache must not help
        if path.is_file() and re.search("nibble_portable|libnibble", str(path.relative_to(built))): path.unlink()
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    succeed(ROOT / "tools/package", "--cpu", env=environment)
    assert (PACKAGES / "SHA256SUMS").read_text() == before


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
cp "$3" "$1/system/nibble-tiny.deb"
chroot "$1/system" dpkg -i /nibble.deb >&2
chroot "$1/system" /usr/bin/nibble run tiny -p 'Hello' 2>&1 | grep -o 'tiny. not found' >&2
chroot "$1/system" dpkg -i /nibble-tiny.deb >&2
chroot "$1/system" /usr/bin/nibble run tiny --temperature 0 -p 'What is 17 + 25?'
chroot "$1/system" /usr/bin/nibble serve --config /etc/nibble/nibble.conf --check | head -n 1
chroot "$1/system" getent passwd nibble
chroot "$1/system" dpkg -r nibble nibble-tiny >&2
chroot "$1/system" find /etc/nibble /usr/bin/nibble /usr/share/nibble 2>/dev/null || true
echo "after purge:"
chroot "$1/system" dpkg -P nibble >&2
rm "$1/system/nibble.deb" "$1/system/nibble-tiny.deb"
cd "$1/upper"
find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' | sort | while read -r file; do
  cmp -s "$file" "/$file" || echo "$file"
done
find . -name '*nibble*' ! -path './var/lib/dpkg/*'
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount")
def test_the_debian_package_installs_and_leaves_nothing(packages, tmp_path):
    package, model = deb(packages, "nibble"), deb(packages, "nibble-tiny")
    if run("unshare", "-m", "bash", "-c", IN_A_COPY.partition("mount -t proc")[0], "bash", tmp_path).returncode:
        pytest.skip("overlays cannot be mounted here")
    told = succeed("unshare", "-m", "bash", "-c", IN_A_COPY, "bash", tmp_path, package, model)
    used, _, left = told.partition("after purge:\n")
    answer, checked, user, *kept = used.splitlines()
    assert answer + "\n" == ANSWER and checked == "tiny can be served."
    assert re.fullmatch(r"nibble:x:\d+:\d+::/nonexistent:/usr/sbin/nologin", user)
    assert kept == ["/etc/nibble", "/etc/nibble/nibble.conf"]
    # useradd and userdel keep backups of the lists of users and groups, which stay.
    backups = {"./etc/passwd-", "./etc/group-", "./etc/shadow-", "./etc/gshadow-", "./etc/subuid-", "./etc/subgid-"}
    assert set(left.splitlines()) <= backups


# Compiles the examples with the library of the Debian packages, in a copy of this machine's system.
WITH_THE_LIBRARY = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/system"
mount -t proc proc "$1/system/proc"
cp "$2" "$3" "$4" "$5/library.c" "$5/library.cpp" "$1/system/"
cd "$1/system"
chroot . dpkg -i "/${2##*/}" "/${3##*/}" "/${4##*/}" >&2
chroot . sh -c 'cc -std=c99 /library.c $(pkg-config --cflags --libs nibble) -o /with-pkg-config' >&2
chroot . c++ -std=c++17 /library.cpp -lnibble -o /plain >&2
chroot . /with-pkg-config tiny 'What is 17 + 25?'
echo
echo 'What is 17 + 25?' | chroot . /plain tiny
chroot . dpkg -P libnibble-dev libnibble0 nibble-tiny >&2
chroot . ldconfig
cd "$1/upper"
find . -name '*libnibble*' ! -name '*.deb' ! -path './var/lib/dpkg/*'
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount")
def test_programs_are_compiled_with_the_debian_packages_of_the_library(packages, tmp_path):
    if run("unshare", "-m", "bash", "-c", IN_A_COPY.partition("mount -t proc")[0], "bash", tmp_path).returncode:
        pytest.skip("overlays cannot be mounted here")
    files = [deb(packages, name) for name in ("libnibble0", "libnibble-dev", "nibble-tiny")]
    told = succeed("unshare", "-m", "bash", "-c", WITH_THE_LIBRARY, "bash", tmp_path, *files, ROOT / "examples")
    assert told == ANSWER + ANSWER, "both programs answer, and purging leaves nothing"


@pytest.mark.parametrize("name, architecture", [("nibble", "amd64"), ("libnibble0", "amd64"), ("libnibble-dev", "all")])
def test_a_debian_package_with_the_cuda_backend_replaces_the_one_without(packages, unpacked, tmp_path, name, architecture):
    """Made from the files of a build without that backend and compressed little, because only names and relations are tested."""
    files = {name: deb(packages, name), f"{name}-cuda": tmp_path / "cuda.deb"}
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "DPKG_DEB_COMPRESSOR_LEVEL": "0"}
    succeed(ROOT / "tools/packaging/debian/package", unpacked, "0.1.0", f"{name}-cuda", architecture, files[f"{name}-cuda"], env=environment)
    fields = {}
    for package, other in ((name, f"{name}-cuda"), (f"{name}-cuda", name)):
        fields[package] = dict(line.split(": ", 1) for line in succeed("dpkg-deb", "-f", files[package]).splitlines() if not line.startswith(" "))
        assert fields[package]["Package"] == package
        assert fields[package]["Conflicts"] == fields[package]["Replaces"] == other
    if name == "libnibble-dev":
        assert fields["libnibble-dev-cuda"]["Depends"] == "libnibble0-cuda (= 0.1.0)"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_the_unit_of_the_debian_package_is_valid_and_hardened(packages, tmp_path):
    succeed("dpkg-deb", "-x", deb(packages, "nibble"), tmp_path)
    unit = tmp_path / "lib/systemd/system/nibble.service"
    text = unit.read_text()
    assert "\nExecStart=/usr/bin/nibble serve --config /etc/nibble/nibble.conf\n" in text and "\nUser=nibble\n" in text
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", unit)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture(scope="module")
def venv(packages, tmp_path_factory):
    wheel = only(packages, ".whl")
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


LIBRARY = """
from nibble_gpt_oss import library

with library.Model("tiny", temperature=0, context=1024) as model, model.session() as session:
    print("".join(event.text for event in session.ask("What is 17 + 25?") if event.kind == "text"))
"""


def test_python_runs_a_model_with_the_library_of_the_wheel(venv, tmp_path):
    assert succeed(venv / "python", "-c", LIBRARY, cwd=tmp_path) == ANSWER


# The image


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def unpack_image(image, folder):
    """Checks the layout of `image` as the specification says, unpacks its layers to `folder`, and returns its configuration."""
    with tarfile.open(image) as archive:
        assert all(entry.mtime == archive.getmembers()[0].mtime and entry.uid == entry.gid == 0 for entry in archive)
        files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    used = {"oci-layout", "index.json", "manifest.json"}

    def blob(descriptor, media_type):
        name = "blobs/" + descriptor["digest"].replace(":", "/")
        used.add(name)
        assert descriptor["mediaType"] == "application/vnd.oci.image." + media_type
        assert len(files[name]) == descriptor["size"] and digest_of(files[name]) == descriptor["digest"]
        return files[name]

    index = json.loads(files["index.json"])
    assert index["schemaVersion"] == 2 and index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    [described] = index["manifests"]
    manifest = json.loads(blob(described, "manifest.v1+json"))
    config = json.loads(blob(manifest["config"], "config.v1+json"))
    assert described["platform"] == {"architecture": config["architecture"], "os": config["os"]}
    layers = [gzip.decompress(blob(layer, "layer.v1.tar+gzip")) for layer in manifest["layers"]]
    assert config["rootfs"] == {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}
    assert len(config["history"]) == len(layers)
    [docker] = json.loads(files["manifest.json"])
    assert docker["Config"] in used and set(docker["Layers"]) < used
    assert used == files.keys()
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            assert all(not entry.name.startswith(("/", "..")) and entry.mode & 0o022 == 0 for entry in archive)
            archive.extractall(folder)
    return config


def check_image(image, folder, architecture):
    config = unpack_image(image, folder)
    assert config["architecture"] == architecture and config["os"] == "linux"
    text = (ROOT / "deploy/Containerfile").read_text()
    assert config["config"]["User"] == re.search(r"^USER (.*)$", text, re.MULTILINE)[1]
    assert config["config"]["Cmd"] == json.loads(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1])
    assert list(config["config"]["ExposedPorts"]) == ["8000/tcp"] and config["config"]["Entrypoint"] == ["/usr/bin/nibble"]
    programs = [path for path in folder.rglob("*") if path.is_file() and os.access(path, os.X_OK)]
    assert {path.relative_to(folder).parts[0] for path in programs} <= {"usr", "lib", "lib64"}
    assert {path.name for path in programs if "usr" in path.relative_to(folder).parts} == {"nibble"}
    assert "BEGIN CERTIFICATE" in (folder / "etc/ssl/certs/ca-certificates.crt").read_text()
    assert f"nibble:x:{config['config']['User']}:" in (folder / "etc/passwd").read_text()
    listed = json.loads((PACKAGES / image.name.replace(".tar", ".spdx.json")).read_text())
    assert {"nibble", "libc6", "ca-certificates", "libstdc++-12-dev", "libsodium-dev"} <= {part["name"].replace("-arm64-cross", "") for part in listed["packages"]}


# Runs the image's own files as root of a file system: $1 the folder, then the user and the command.
IN_THE_IMAGE = """
mkdir -p "$1/proc" && mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot --userspec="$1" "$root" "${@:2}"
"""


def test_the_image_has_the_layout_of_the_specification_and_answers(packages, tmp_path):
    check_image(only(packages, "-oci.tar"), tmp_path, "amd64")
    tmp_path.chmod(0o755)  # the root folder of a container, which its user reads
    if run("unshare", "-m", "bash", "-c", 'mkdir -p "$1/proc" && mount -t proc proc "$1/proc"', "bash", tmp_path).returncode:
        pytest.skip("only root can change the root folder")

    def in_image(*command):
        return succeed("unshare", "-m", "bash", "-c", IN_THE_IMAGE, "bash", tmp_path, "65532:65532", "/usr/bin/nibble", *command)

    assert in_image(*QUESTION) == ANSWER
    told = in_image("serve", "tiny", "--host", "0.0.0.0", "--port", "8000", "--shutdown-delay", "5", "--check")
    assert told.startswith("tiny can be served.")


# Container tools. Each gets storage of its own, so that nothing stays behind.


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@needs("skopeo")
@pytest.mark.parametrize("transport", ["oci-archive", "docker-archive"])
def test_skopeo_reads_the_image_in_both_formats(packages, transport):
    image = f"{transport}:{only(packages, '-oci.tar')}"
    described = json.loads(succeed("skopeo", "inspect", image))
    assert (described["Os"], described["Architecture"], len(described["Layers"])) == ("linux", "amd64", 2)
    assert described["Labels"]["org.opencontainers.image.title"] == "nibble"
    config = json.loads(succeed("skopeo", "inspect", "--config", image))
    assert config["config"]["Entrypoint"] == ["/usr/bin/nibble"] and len(config["history"]) == len(config["rootfs"]["diff_ids"])


@needs("skopeo")
def test_skopeo_finds_the_image_by_name_and_copies_it(packages, tmp_path):
    image = only(packages, "-oci.tar")
    version = image.name.split("-")[1]
    for name in (f"oci-archive:{image}:{version}", f"docker-archive:{image}:nibble:{version}"):
        copy = tmp_path / name.split(":")[0]
        succeed("skopeo", "copy", "-q", name, f"dir:{copy}")  # checks each digest
        manifest = json.loads((copy / "manifest.json").read_text())
        assert all((copy / layer["digest"].removeprefix("sha256:")).stat().st_size == layer["size"] for layer in manifest["layers"])


DENIED = "setrlimit|cgroup|not permitted|permission denied|clone|unshare|iptables|netavark|newuidmap"


def succeed_unless_denied(*command):
    """Skips the test if this machine does not let the tool run containers."""
    done = run(*command)
    if done.returncode in (1, 125, 126) and re.search(DENIED, done.stderr, re.IGNORECASE):
        pytest.skip(f"{command[0]} cannot run containers here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs("buildah")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root folder")
def test_buildah_runs_the_image(packages, tmp_path):
    """With isolation by chroot alone, which needs no cgroups and no other privileges, so that it works inside a container."""
    buildah = ("buildah", "--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs")
    for transport in ("oci-archive", "docker-archive"):
        container = succeed_unless_denied(*buildah, "from", f"{transport}:{only(packages, '-oci.tar')}").splitlines()[-1]
        told = succeed_unless_denied(*buildah, "run", "--isolation", "chroot", container, "--", "/usr/bin/nibble", "--version")
        assert told.startswith("nibble ") and "backends:" in told
        assert succeed_unless_denied(*buildah, "run", "--isolation", "chroot", container, "--", "/usr/bin/nibble", *QUESTION) == ANSWER
        succeed_unless_denied(*buildah, "rm", container)


class Podman:
    """Podman with storage in `folder` and a network namespace of its own: where podman adds interfaces, Chromium aborts what
    it loads (ERR_NETWORK_CHANGED), also in tests that run at the same time. What a sandbox does not grant (namespaces,
    cgroups, resource limits) skips the test that needs it."""

    # runc also takes hosts with both versions of cgroups, which crun refuses.
    RUNTIME = ("--runtime", "runc") if shutil.which("runc") else ()
    # Podman's own limits are higher than this process may set without CAP_SYS_RESOURCE.
    RUN = ("run", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--read-only")

    def __init__(self, folder):
        self.command = ("podman", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", *self.RUNTIME)
        self.namespace = subprocess.Popen(
            ("unshare", "--net", "bash", "-c", "ip link set lo up && echo ready && exec sleep infinity"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not self.namespace.stdout.readline():
            pytest.skip(f"no network namespace can be made here: {self.namespace.communicate()[1].strip()}")

    def inside(self, *command):
        """Returns a command that runs in the namespace."""
        return "nsenter", f"--net=/proc/{self.namespace.pid}/ns/net", *command

    def __call__(self, *arguments):
        return succeed_unless_denied(*self.inside(*self.command, *arguments))

    def close(self):
        try:
            self("rmi", "--all", "--force")
        finally:
            self.namespace.kill()
            self.namespace.communicate()


@pytest.fixture(scope="module")
def podman(packages):
    with tempfile.TemporaryDirectory(prefix="podman", dir="/tmp") as folder:  # podman takes no path above 50 characters
        with contextlib.closing(Podman(pathlib.Path(folder))) as podman:
            loaded = podman("load", "-q", "-i", only(packages, "-oci.tar"))
            assert re.fullmatch(r"Loaded image: docker.io/library/nibble:[0-9.]+\n", loaded)
            yield podman


def image_name(packages):
    return "nibble:" + only(packages, "-oci.tar").name.split("-")[1]


@needs("podman", "unshare", "nsenter", "ip")
def test_podman_loads_the_image_and_runs_it(podman, packages):
    name = image_name(packages)
    [listed] = json.loads(podman("image", "inspect", name))
    assert listed["User"] == "65532:65532" and listed["Architecture"] == "amd64" and listed["Config"]["Entrypoint"] == ["/usr/bin/nibble"]
    assert podman(*podman.RUN, "--rm", "--network", "none", name, "--version").startswith("nibble ")
    assert podman(*podman.RUN, "--rm", "--network", "none", name, *QUESTION) == ANSWER


@needs("podman", "unshare", "nsenter", "ip")
def test_podman_serves_a_mounted_model_by_the_default_command_and_stops_it(podman, packages, tmp_path):
    models = tmp_path / "models"
    shutil.copytree(ROOT / "models/tiny-gpt-oss", models / "gpt-oss-20b")
    for folder in (tmp_path, models): folder.chmod(0o755)
    server = podman(*podman.RUN, "--detach", "-v", f"{models}:/models:ro", "-p", "127.0.0.1:8001:8000", image_name(packages)).strip()
    try:
        model = json.loads(succeed(*podman.inside("curl", "-sSf", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", "http://127.0.0.1:8001/v1/models")))
        assert [entry["id"] for entry in model["data"]] == ["gpt-oss-20b"]
    finally:
        podman("stop", "-t", "30", server)
        state = podman("inspect", "--format", "{{.State.ExitCode}}", server)
        podman("rm", "-f", server)
    assert state == "0\n"  # ended by SIGTERM, in order


# AArch64: from the objects of tools/aarch64, which ./test runs before these tests.

needs_aarch64 = pytest.mark.skipif(
    not (ROOT / "build/aarch64/nibble").exists() or not shutil.which("qemu-aarch64-static"), reason="tools/aarch64 has not been run"
)


@pytest.fixture(scope="module")
def aarch64_packages():
    return build_packages("--aarch64", "--cpu")


def emulated(root, program, *arguments):
    return succeed("qemu-aarch64-static", "-L", root, program, *arguments)


@needs_aarch64
def test_the_archive_and_the_debian_package_answer_on_aarch64(aarch64_packages, tmp_path):
    archive = only(aarch64_packages, ".tar.zst")
    succeed("tar", "-C", tmp_path, "-xf", archive)
    system = ROOT / "build/aarch64-root"
    assert emulated(system, tmp_path / archive.name.removesuffix(".tar.zst") / "bin/nibble", *QUESTION) == ANSWER
    package, model = deb(aarch64_packages, "nibble"), deb(aarch64_packages, "nibble-tiny")
    assert package.stat().st_size < 10_000_000
    assert succeed("dpkg-deb", "-f", package, "Architecture") == "arm64\n"
    for path in (package, model):
        succeed("dpkg-deb", "-x", path, tmp_path / "installed")
    assert emulated(system, tmp_path / "installed/usr/bin/nibble", *QUESTION) == ANSWER


@needs_aarch64
def test_a_c_program_with_the_library_answers_on_aarch64(aarch64_packages, tmp_path):
    for name in ("libnibble0", "libnibble-dev", "nibble-tiny"):
        succeed("dpkg-deb", "-x", deb(aarch64_packages, name), tmp_path)
    flags = ["-I", tmp_path / "usr/include", "-L", tmp_path / "usr/lib", "-lnibble", f"-Wl,-rpath,{tmp_path}/usr/lib"]
    succeed("aarch64-linux-gnu-gcc", "-std=c99", ROOT / "examples/library.c", *flags, "-o", tmp_path / "library")
    assert emulated("/usr/aarch64-linux-gnu", tmp_path / "library", "tiny", "What is 17 + 25?") == ANSWER.rstrip("\n")


@needs_aarch64
def test_the_wheel_answers_on_aarch64(aarch64_packages, tmp_path):
    wheel = only(aarch64_packages, "-py3-none-manylinux_2_28_aarch64.whl")
    succeed(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path)
    program = tmp_path / "nibble_gpt_oss/bin/nibble"
    program.chmod(0o755)
    assert emulated(ROOT / "build/aarch64-root", program, *QUESTION) == ANSWER


@needs_aarch64
def test_the_image_answers_on_aarch64(aarch64_packages, tmp_path):
    check_image(only(aarch64_packages, "-oci.tar"), tmp_path, "arm64")
    assert emulated(tmp_path, tmp_path / "usr/bin/nibble", *QUESTION) == ANSWER


@needs_aarch64
def test_checksums_cover_both_processors(packages, aarch64_packages):
    listed = {line.split()[1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines()}
    assert {path.name for path in (*packages, *aarch64_packages)} < listed
    succeed("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=PACKAGES)
