"""Certificates through the real CSR API: the operator's own account signs, agents ask with bound tokens."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from concurrent import futures
from contextlib import asynccontextmanager, contextmanager

import grpc
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from hawk_agent import identity
from hawk_agent.identity.cluster import Bound
from hawk_agent.identity.keeper import make_request
from hawk_api.certificates import server_name, uri
from hawk_kube.errors import RejectedError
from hawk_kube.threads import AsyncClient
from hawk_operator import trust
from tests.cluster.cluster import CommandError, client_of
from tests.support.waiting import until

from . import rights

pytestmark = pytest.mark.cluster

PATIENCE = 30.0


@contextmanager
def signing(own, release):
    """The operator's trust loop under the operator's own account."""
    kubeconfig = own.service_account_kubeconfig(release.namespace, "hawk-operator")
    api = own.client(kubeconfig, "hawk-operator")
    settings = trust.SignerSettings(release.namespace, release.namespace, poll=0.2)
    stop = threading.Event()
    metrics = trust.TrustMetrics(CollectorRegistry())
    thread = threading.Thread(target=trust.run, args=(api, settings, time.time, metrics, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        api.close()


@pytest.fixture
def signer(own, release):
    with signing(own, release):
        yield


@asynccontextmanager
async def cluster_of(kubeconfig, release):
    """The API server as an agent's identity sees it."""
    kube = AsyncClient(client_of(kubeconfig, "hawk-agent"))
    try:
        yield identity.Cluster(kube, release.namespace)
    finally:
        await kube.close()


async def enrol(kubeconfig, release, node, folder, patience=PATIENCE):
    files = identity.Files(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    async with cluster_of(kubeconfig, release) as api:
        await identity.ensure_identity(api, node, files, time.time, patience)
    return await asyncio.to_thread(identity.read_material, files)


async def submit(kubeconfig, release, bound):
    """Hand in a request for any names; the request's name."""
    async with cluster_of(kubeconfig, release) as api:
        return await api.submit(make_request(bound)[1])


def answered(own, name):
    """A request's status, once somebody has answered it."""

    def look():
        status = own.get("csr", name).get("status") or {}
        return status if status.get("conditions") or status.get("certificate") else None

    return until(look, what=f"an answer to {name}", timeout=PATIENCE)


def condition(own, name):
    (found,) = answered(own, name)["conditions"]
    return found["type"], found["reason"], found["message"]


async def test_agents_get_certificates_by_which_they_know_each_other(
    own, release, nodes, agent_kubeconfig, signer, tmp_path
):
    """Two agents, mutual TLS: each is known by its node's name, and is not taken for the other."""
    mark = own.audit_mark()
    first, second = [await enrol(agent_kubeconfig(node), release, node, tmp_path / node) for node in nodes]

    names = first.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [server_name(nodes[0])]
    assert await asyncio.to_thread(call, second, first, nodes[0]) == server_name(nodes[1])
    with pytest.raises(grpc.RpcError):
        await asyncio.to_thread(call, second, first, nodes[1])

    for name in ("hawk-operator", "hawk-agent"):
        assert rights.refused(own.audit_events(mark), rights.account(release.namespace, name)) == []


def call(client, server, node):
    """One call over mutual TLS to the agent that should be on `node`; the name that it sees of its caller."""

    def answer(_, context):
        return context.auth_context()["x509_subject_alternative_name"][0]

    handler = grpc.method_handlers_generic_handler("t", {"who": grpc.unary_unary_rpc_method_handler(answer)})
    listening = grpc.server(futures.ThreadPoolExecutor(1), handlers=[handler])
    theirs = grpc.ssl_server_credentials(
        [(server.key, server.certificate)], server.authority, require_client_auth=True
    )
    port = listening.add_secure_port("127.0.0.1:0", theirs)
    listening.start()
    ours = grpc.ssl_channel_credentials(client.authority, client.key, client.certificate)
    options = [("grpc.ssl_target_name_override", server_name(node))]
    try:
        with grpc.secure_channel(f"127.0.0.1:{port}", ours, options) as channel:
            return channel.unary_unary("/t/who")(b"", timeout=20).decode()
    finally:
        listening.stop(None).wait()


async def test_a_request_for_another_node_is_denied_with_both_named(
    own, release, nodes, agent_kubeconfig, signer
):
    name = await submit(agent_kubeconfig(nodes[0]), release, Bound(nodes[1], "any"))

    kind, reason, message = condition(own, name)

    assert (kind, reason) == ("Denied", "NotItsOwnName")
    assert nodes[0] in message
    assert nodes[1] in message


async def test_a_request_for_another_pod_of_the_node_is_denied(own, release, nodes, agent_kubeconfig, signer):
    name = await submit(agent_kubeconfig(nodes[0]), release, Bound(nodes[0], "another"))

    assert condition(own, name)[:2] == ("Denied", "NotItsOwnName")


async def test_another_account_is_denied_even_with_an_administrators_rights(own, release, nodes, signer):
    name = await submit(own.kubeconfig, release, Bound(nodes[0], "any"))

    assert condition(own, name)[:2] == ("Denied", "NotAnAgent")


async def test_what_a_person_approves_against_the_policy_is_not_signed(own, release, nodes, agent_kubeconfig):
    name = await submit(agent_kubeconfig(nodes[0]), release, Bound(nodes[1], "any"))
    own.kubectl("certificate", "approve", name)

    with signing(own, release):
        until(
            lambda: (
                {entry["type"] for entry in own.get("csr", name)["status"]["conditions"]}
                == {"Approved", "Failed"}
            ),
            what="the request to fail",
            timeout=PATIENCE,
        )

    assert "certificate" not in own.get("csr", name)["status"]


async def test_an_agent_neither_approves_nor_signs(own, release, nodes, agent_kubeconfig):
    kubeconfig = agent_kubeconfig(nodes[0])
    name = await submit(kubeconfig, release, Bound(nodes[1], "any"))

    with pytest.raises(CommandError, match="forbidden"):
        own.kubectl("certificate", "approve", name, kubeconfig=kubeconfig)
    own.kubectl("delete", "csr", name)


async def test_without_an_operator_the_agent_says_what_it_waits_for(
    own, release, nodes, agent_kubeconfig, tmp_path
):
    with pytest.raises(identity.IdentityError, match=r"certificate request hawk-agent-\S+; is an operator"):
        await enrol(agent_kubeconfig(nodes[0]), release, nodes[0], tmp_path, patience=3)


async def test_an_unbound_token_gets_nothing(own, release, nodes, signer, tmp_path):
    unbound = own.service_account_kubeconfig(release.namespace, "hawk-agent")

    with pytest.raises(identity.IdentityError, match="not bound to a pod"):
        await enrol(unbound, release, nodes[0], tmp_path)
    with pytest.raises(RejectedError, match="must be bound to its pod"):
        await submit(unbound, release, Bound(nodes[0], "any"))


async def test_the_authority_survives_the_operator(own, release, nodes, agent_kubeconfig, tmp_path):
    """Certificates from before a restart of the operator stay trusted, and the key stays the operator's."""
    materials = []
    for turn in range(2):
        with signing(own, release):
            materials.append(await enrol(agent_kubeconfig(nodes[0]), release, nodes[0], tmp_path / str(turn)))

    before, after = materials
    assert before.authority == after.authority
    assert before.key != after.key
    secret = own.get("secret", "hawk-agent-ca", "-n", release.namespace)["data"]
    assert sorted(secret) == ["signing.crt", "signing.key"]
    published = own.get("configmap", "hawk-agent-trust", "-n", release.namespace)["data"]
    assert b"PRIVATE KEY" in base64.b64decode(secret["signing.key"])
    assert "PRIVATE KEY" not in published["ca.crt"]


async def test_the_identity_says_pod_and_node(own, release, nodes, agent_pod, signer, tmp_path):
    pod = agent_pod(nodes[0])
    kubeconfig = own.service_account_kubeconfig(release.namespace, "hawk-agent", bound_pod=pod)
    pod_uid = own.get("pod", pod, "-n", release.namespace)["metadata"]["uid"]

    material = await enrol(kubeconfig, release, nodes[0], tmp_path)

    names = material.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [uri(nodes[0], pod_uid)]


async def test_both_sides_use_every_right_of_trust_that_their_own_roles_give(
    own, release, nodes, agent_kubeconfig, tmp_path
):
    mark = own.audit_mark()
    own.kubectl(
        "patch",
        "secret",
        "hawk-agent-ca",
        "-n",
        release.namespace,
        "--type=json",
        "-p",
        '[{"op": "remove", "path": "/data"}]',
    )
    with signing(own, release):
        await enrol(agent_kubeconfig(nodes[0]), release, nodes[0], tmp_path)

    objects = release.objects()
    for name in ("hawk-operator", "hawk-agent"):
        user = rights.account(release.namespace, name)
        asked = rights.used(rights.asked(own.audit_events(mark), user))
        given = rights.granted(objects, release.namespace, name)
        assert rights.refused(own.audit_events(mark), user) == []
        assert asked
        assert asked <= given
        of_trust = {"secrets", "certificates.k8s.io"}
        assert {right for right in given if of_trust & set(right)} <= asked
