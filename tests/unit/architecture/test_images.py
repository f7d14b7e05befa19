"""The Containerfiles keep what images must have, and the builder without an engine makes the same."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from images import archive, content

ROOT = Path(__file__).parents[3]
COMPONENTS = {path.parent.name: path.read_text() for path in ROOT.glob("images/*/Containerfile")}


def test_there_is_one_of_each():
    assert set(COMPONENTS) == set(content.COMPONENTS)


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_base_is_pinned_by_digest_and_the_last_stage_is_no_build_stage(component):
    text = COMPONENTS[component]
    [base] = re.findall(r"^ARG DEBIAN=(\S+)$", text, re.MULTILINE)
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)

    assert re.fullmatch(r"docker\.io/library/debian:\S+@sha256:[0-9a-f]{64}", base)
    assert stages == [("${DEBIAN}", "build"), ("${DEBIAN}", "")]
    last = text.rpartition("FROM ")[2]
    assert "gcc" not in last
    assert "pip" not in last


@pytest.mark.parametrize("component", COMPONENTS)
def test_it_runs_as_a_user_with_a_name_that_is_not_root(component):
    """A user without an entry has no name: what asks for it fails in ways that nobody looks for."""
    last = COMPONENTS[component].rpartition("FROM ")[2]
    number = content.USER.partition(":")[0]

    assert f"USER {content.USER}\n" in last
    assert f"--uid {number} " in last
    assert re.search(rf"^\w+:x:{number}:{number}:", content.ACCOUNTS["etc/passwd"], re.MULTILINE)
    assert re.search(rf"^\w+:x:{number}:", content.ACCOUNTS["etc/group"], re.MULTILINE)
    assert f'ENTRYPOINT ["hawk-{component}"]' in last


@pytest.mark.parametrize("component", COMPONENTS)
def test_its_packages_and_wheels_are_those_of_the_lists(component):
    text = COMPONENTS[component]
    lock = (ROOT / f"requirements/{component}.txt").read_text()

    assert f"images/{component}/packages.txt" in text
    assert f"requirements/{component}.txt" in text
    assert text.count("--require-hashes") == 2
    assert "matplotlib" not in lock
    assert all(f" $SITE/{name} " in text for name in content.UNUSED)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_lock_is_split_into_whole_requirements(component):
    text = (ROOT / f"requirements/{component}.txt").read_text()
    found = content.locked(text)

    assert "".join(found) == text
    assert all(re.match(r"[a-z0-9][a-z0-9-]*==", entry) and "--hash=sha256:" in entry for entry in found)


def test_rdma_is_in_the_agents_image_and_in_no_other():
    assert {"libibverbs1", "ibverbs-providers"} <= set(content.listed("agent"))
    assert not {"libibverbs1", "ibverbs-providers"} & set(content.listed("operator"))


def test_what_the_containerfiles_copy_is_in_the_context():
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    for text in COMPONENTS.values():
        for words in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            for word in words.split():
                assert (ROOT / word).exists(), word
                assert Path(word).parts[0] in allowed, word


def test_an_archive_holds_shared_layers_once_and_names_every_image(tmp_path):
    layers = []
    for number in range(3):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(bytes([number]) * 10)
        layers.append(archive.Layer(path, str(number) * 64))
    first = archive.Image("a:1", (layers[0], layers[1]), user="1:1", entrypoint=("x",))
    second = archive.Image("b:1", (layers[0], layers[2]))
    archive.write_archive([first, second], tmp_path / "out.tar")

    with tarfile.open(tmp_path / "out.tar") as written:
        names = written.getnames()
        read = {name: (written.extractfile(name) or io.BytesIO()).read() for name in names}
    index = json.loads(read["index.json"])
    assert len(names) == len(set(names)) == 2 + 3 + 4
    titles = [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]]
    assert titles == ["a:1", "b:1"]
    manifest = json.loads(read[f"blobs/sha256/{index['manifests'][0]['digest'].partition(':')[2]}"])
    config = json.loads(read[f"blobs/sha256/{manifest['config']['digest'].partition(':')[2]}"])
    assert config["config"]["User"] == "1:1"
    assert config["config"]["Entrypoint"] == ["x"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
