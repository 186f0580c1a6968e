"""Tests that deploy/ matches nibble: its command lines start a server with the paths and metrics that its probes,
monitors, gateways and proxies use. tests/e2e/test_replicas.py runs the proxies."""

import contextlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import time

import pytest
import yaml

from test_metrics import scrape
from test_serve import NIBBLE, serving

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TEXTS = {path.relative_to(DEPLOY).as_posix(): path.read_text() for path in DEPLOY.rglob("*") if path.is_file()}
YAMLS = {name: yaml.safe_load(text) for name, text in TEXTS.items() if name.endswith(".yaml")}
POD = YAMLS["kubernetes/deployment.yaml"]["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
SERVICES = YAMLS["compose.yaml"]["services"]
UNIT = TEXTS["nibble@.service"]
IMAGE = TEXTS["Containerfile"].replace("\\\n", "")
LABELS = POD["metadata"]["labels"]


def image_list(instruction):
    [arguments] = re.findall(rf"^{instruction} .*?(\[.*\])$", IMAGE, re.MULTILINE)
    return json.loads(arguments)


def health_check():
    return image_list("HEALTHCHECK")


# The server's command line in each file.
COMMANDS = {
    "Containerfile": image_list("CMD"),
    "nibble@.service": shlex.split(re.search(r"^ExecStart=/usr/local/bin/nibble ((?:.*\\\n)*.*)$", UNIT, re.MULTILINE)[1].replace("\\\n", "")),
    "kubernetes/deployment.yaml": CONTAINER["args"],
    "compose.yaml": SERVICES["serve"]["command"],
    "compose.yaml dev": shlex.split(SERVICES["dev"]["command"][-1].rpartition("/nibble ")[2]),
}


def flags_of(name):
    """Returns the flags after the model with their values; True for a flag without a value."""
    words = " ".join(COMMANDS[name][2:]).replace("=", " ").split()
    flags = {}
    for word in words:
        if word.startswith("--"):
            last = word
            flags[last] = True
        else:
            flags[last] = word
    return flags


@contextlib.contextmanager
def deployed(name, folder):
    """Starts the command line of this file, with the miniature model on a free port of this machine."""
    flags = {**flags_of(name), "--host": "127.0.0.1", "--served-model-name": "tiny", "--context": "2048"}
    del flags["--port"]
    if "--api-key-file" in flags:
        (folder / "keys").write_text("secret\n")
        flags["--api-key-file"] = str(folder / "keys")
    with serving(*(word for flag, value in flags.items() for word in ([flag] if value is True else [flag, value]))) as server:
        yield server


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_line_serves_and_probes_need_no_key(name, tmp_path):
    with deployed(name, tmp_path) as server:
        assert server.health("/health") == server.health("/live") == 200
        assert server.health("/v1/models") == (401 if "--api-key-file" in flags_of(name) else 200)


def test_the_image_is_healthy_as_long_as_the_server_is_ready(tmp_path):
    check = health_check()
    with deployed("Containerfile", tmp_path) as server:
        check[-1] = check[-1].replace("/8000", f"/{server.port}")
        assert subprocess.run(check, timeout=20).returncode == 0
        server.process.terminate()
        while server.health() != 503:
            time.sleep(0.01)
        assert subprocess.run(check, timeout=20).returncode == 1


def test_what_is_asked_of_a_pod_is_there(tmp_path):
    probes = {probe: CONTAINER[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert [probe["path"] for probe in probes.values()] == ["/health", "/health", "/live"]
    [endpoint] = YAMLS["kubernetes/pod-monitor.yaml"]["spec"]["podMetricsEndpoints"]
    [rule] = YAMLS["values/prometheus-adapter.yaml"]["rules"]["custom"]
    [metric] = YAMLS["kubernetes/autoscaler.yaml"]["spec"]["metrics"]
    gateways = [YAMLS["values/llm-d-router.yaml"]["router"]["epp"], YAMLS["values/inferencepool.yaml"]["inferenceExtension"]]
    assert {endpoint["path"], *(gateway["metricsDataSource"]["path"] for gateway in gateways)} == {"/metrics"}
    with deployed("kubernetes/deployment.yaml", tmp_path) as server:
        assert server.health() == 200  # an HTTP request that is counted
        _, samples = scrape(server)  # scrapes without a key

    absent = {"vllm:lora_requests_info"}  # documented as missing
    named = {metric for text in TEXTS.values() for metric in re.findall(r"\b(?:nibble|vllm):[a-z_]+", text)}
    assert len(named) > 5 and named - {key[0] for key in samples} == absent
    series = rule["seriesQuery"].partition("{")[0]
    assert (series,) in samples
    renamed = re.sub(rule["name"]["matches"], rule["name"]["as"].replace("${1}", r"\1"), series)
    assert metric["pods"]["metric"]["name"] == renamed
    # A gateway's picker reads one series of each name, and takes the block size from labels.
    for name in ("vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"):
        assert [key for key in samples if key[0] == name] == [(name, ("engine", "0"))]
    [info] = [dict(key[1:]) for key in samples if key[0] == "vllm:cache_config_info"]
    assert info["block_size"] == "32" and int(info["num_gpu_blocks"]) > 0


def test_manifests_are_of_the_same_replicas():
    assert len(YAMLS) == 10
    for name in (name for name in YAMLS if name.startswith("kubernetes/")):
        assert YAMLS[name].keys() == {"apiVersion", "kind", "metadata", "spec"} and YAMLS[name]["metadata"]["name"] == "nibble"
    spec = {name.removeprefix("kubernetes/").removesuffix(".yaml"): told.get("spec") for name, told in YAMLS.items()}
    for selector in (spec["deployment"]["selector"], spec["pod-monitor"]["selector"], spec["disruption-budget"]["selector"]):
        assert selector == {"matchLabels": LABELS}
    assert spec["service"]["selector"] == LABELS
    deployment = YAMLS["kubernetes/deployment.yaml"]
    told = {"apiVersion": deployment["apiVersion"], "kind": deployment["kind"], "name": deployment["metadata"]["name"]}
    assert spec["autoscaler"]["scaleTargetRef"] == told
    assert spec["autoscaler"]["minReplicas"] == spec["deployment"]["replicas"] == 2

    [port] = CONTAINER["ports"]
    asking = [CONTAINER[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")] + spec["pod-monitor"]["podMetricsEndpoints"]
    assert {asked["port"] for asked in asking} | {port["targetPort"] for port in spec["service"]["ports"]} == {port["name"]}
    pools = [YAMLS["values/llm-d-router.yaml"]["router"], YAMLS["values/inferencepool.yaml"]["inferencePool"]]
    servers = [pools[0]["modelServers"], {**pools[1], **pools[1]["modelServers"]}]
    assert all(server["matchLabels"] == LABELS and server["targetPorts"] == [{"number": port["containerPort"]}] for server in servers)

    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in POD["spec"]["volumes"]} and all(mount["readOnly"] for mount in CONTAINER["volumeMounts"])
    assert COMMANDS["kubernetes/deployment.yaml"][1].startswith(mounts["models"] + "/")
    assert flags_of("kubernetes/deployment.yaml")["--api-key-file"].startswith(mounts["keys"] + "/")


def test_ports_and_users_are_the_same_everywhere():
    flags = {name: flags_of(name) for name in COMMANDS}
    assert flags["kubernetes/deployment.yaml"]["--port"] == flags["Containerfile"]["--port"] == "8000" == str(CONTAINER["ports"][0]["containerPort"])
    assert f"EXPOSE {flags['Containerfile']['--port']}\n" in IMAGE and "/127.0.0.1/8000 " in health_check()[-1]
    for name, service in SERVICES.items():
        if name != "serve-gpu":  # serve-gpu extends serve
            port = flags["compose.yaml" if name == "serve" else f"compose.yaml {name}"]["--port"]
            assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    user = POD["spec"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}\n" in IMAGE and user > 0
    template = flags["nibble@.service"]["--host"] + ":" + flags["nibble@.service"]["--port"]
    replicas = [template.replace("%i", number) for number in "01"]
    assert re.findall(r"^ +server \S+ (\S+)$", TEXTS["haproxy.cfg"], re.MULTILINE) == replicas
    assert re.findall(r"^ +server (\S+) ", TEXTS["nginx.conf"], re.MULTILINE) == replicas


def test_a_server_has_time_to_end():
    """Supervisors wait longer than the server takes to shut down, and readiness probes are frequent enough."""
    seconds = {name: [int(flags_of(name).get(flag, 30)) for flag in ("--shutdown-delay", "--shutdown-timeout")] for name in COMMANDS}
    last_words = 2  # seconds for the answers that the server cancels
    assert POD["spec"]["terminationGracePeriodSeconds"] > sum(seconds["kubernetes/deployment.yaml"]) + last_words
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)[1]) > sum(seconds["nibble@.service"]) + last_words
    assert {int(stop) for stop in re.findall(r"--stop-timeout (\d+)", TEXTS["README.md"])} == {40} and 40 > sum(seconds["Containerfile"]) + last_words
    for name, service in {"compose.yaml": "serve", "compose.yaml dev": "dev"}.items():
        assert SERVICES[service]["stop_grace_period"] == "40s" and 40 > sum(seconds[name]) + last_words
    ready = CONTAINER["readinessProbe"]
    assert seconds["kubernetes/deployment.yaml"][0] > ready["periodSeconds"] * ready["failureThreshold"]
    interval, fall = map(int, re.search(r"check inter (\d+)s fall (\d+) ", TEXTS["haproxy.cfg"]).groups())
    assert min(seconds["nibble@.service"][0], seconds["Containerfile"][0]) > 2 * interval * fall


def test_the_image_is_built_as_the_demo_builds():
    demo = (ROOT / "demo").read_text()
    for command in ("cmake --preset release -DNIBBLE_TESTS=OFF -DNIBBLE_BENCH=OFF", "cmake --build --preset release --target nibble", "install_packages $kBuildPackages"):
        assert command in demo and command.replace("release", '"$PRESET"') in IMAGE
    presets = [preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["buildPresets"]]
    assert {"release", "cuda"} < set(presets)
    copied = {word for line in re.findall(r"^COPY (?!--)(.*) \S+$", IMAGE, re.MULTILINE) for word in line.split()}
    assert {"src", "cmake", "CMakeLists.txt"} < copied and all((ROOT / path).exists() for path in copied)
    # Everything that is installed is copied into the image.
    lists = re.findall(r"install\((?:DIRECTORY|FILES) ([^)]+) DESTINATION", (ROOT / "cmake/Install.cmake").read_text())
    installed = [pathlib.Path(path) for paths in lists for path in paths.split()]
    assert len(installed) == 4 and all({str(path), *map(str, path.parents)} & copied for path in installed)


def test_the_modes_of_compose_are_stages_of_the_image():
    assert [service["profiles"] for service in SERVICES.values()] == [["serve"], ["serve-gpu"], ["dev"]]
    stages = re.findall(r"^FROM \S+ AS (\S+)$", IMAGE, re.MULTILINE)
    builds = {name: service["build"] for name, service in SERVICES.items()}
    assert all((DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Containerfile") for build in builds.values())
    assert builds["dev"]["target"] in stages and builds["serve-gpu"]["args"] == {"PRESET": "cuda"}
    # The dev service runs the commands of the image's compile stage, on the mounted source.
    for command in SERVICES["dev"]["command"][-1].splitlines()[:2]:
        assert command.replace("release", '"$PRESET"') in IMAGE
    assert SERVICES["serve"]["read_only"] and SERVICES["serve"]["cap_drop"] == ["ALL"]
    assert SERVICES["serve-gpu"]["extends"] == "serve" and COMMANDS["compose.yaml"] == image_list("CMD")


@pytest.mark.parametrize("debian,nvidia", [("amd64", "x86_64"), ("arm64", "sbsa")])
def test_the_image_takes_cuda_for_its_architecture(tmp_path, debian, nvidia):
    [step] = re.findall(r"^RUN (\[ \"\$PRESET\" != cuda \].*)$", IMAGE, re.MULTILINE)
    for name, text in {"dpkg": f'[ "$1" = --print-architecture ] && echo {debian} || true', "curl": f'echo "$@" >{tmp_path}/fetched'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "environment.sh").write_text(f'install_packages() {{ echo "$@" >{tmp_path}/installed; }}\n')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PRESET": "cuda"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", step], cwd=tmp_path, env=environment, check=True, timeout=20)
    assert f"/debian12/{nvidia}/cuda-keyring_" in (tmp_path / "fetched").read_text()
    assert (tmp_path / "installed").read_text() == "cuda-minimal-build-13-0\n"


@pytest.mark.skipif("bookworm" not in pathlib.Path("/etc/os-release").read_text(), reason="the image is Debian 12's, and so are the names of its packages")
def test_the_image_has_the_libraries_of_the_program():
    libraries = re.findall(r"=> (/\S+)", subprocess.run(["ldd", NIBBLE], capture_output=True, text=True, check=True, timeout=20).stdout)
    paths = {candidate for library in libraries for candidate in (library, "/usr" + library)}
    told = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, timeout=20).stdout
    # The subtracted packages are part of Debian's base.
    packages = {line.partition(":")[0] for line in told.splitlines()} - {"libc6", "libgcc-s1", "libstdc++6"}
    assert len(packages) >= 5
    assert packages == set(re.search(r"--no-install-recommends (lib.*?) &&", IMAGE)[1].split())


RULES = YAMLS["prometheus-rules.yaml"]["groups"][0]["rules"]


def test_every_alert_names_metrics_that_are_there():
    assert len(RULES) == len({rule["alert"] for rule in RULES}) > 5
    with serving() as server:
        for request in ({"prompt": "It was", "max_tokens": 2}, {"prompt": "It was", "temperature": 9}):
            server.post("/v1/completions", request, "Connection: close\r\n").makefile("rb").read()
        _, samples = scrape(server)
    names = {key[0] for key in samples} | {"up"}  # added by Prometheus itself
    labels = {name for key in samples for name, _ in key[1:]} | {"job", "instance"}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning") and "{{ $labels.instance }}" in rule["annotations"]["summary"]
        expression = re.sub(r'"[^"]*"', '""', rule["expr"])
        assert expression.count("(") == expression.count(")") and re.search(r" (>|==) [\d.]+$", expression)
        named = set(re.findall(r"\b(?:nibble:\w+|process_\w+|up)\b", expression))
        assert named and named <= names, named - names
        assert set(re.findall(r"(\w+)(?:=~|!~|=)\"", expression)) <= labels


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not there to judge the unit")
def test_the_unit_is_hardened(tmp_path):
    unit = tmp_path / "nibble@0.service"
    unit.write_text(UNIT)
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", unit], capture_output=True, text=True, timeout=60
    )
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", told.stdout)
    assert level and float(level[1]) < 3 and told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"^DeviceAllow=char-nvidia\* rw$", UNIT, re.MULTILINE)  # GPUs stay accessible
