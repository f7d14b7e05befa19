"""The socket as a device: what a kubelet, which is played here, is told and hands to containers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import grpc

from hawk_agent.kube import device_plugin
from hawk_agent.kube.device_plugin import DEVICES, DevicePlugin
from hawk_agent.protocol import device_plugin_pb2 as wire
from hawk_api.labels import AGENT_RESOURCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


class Kubelet:
    """The registration service of one kubelet; a new one removes what the old one knew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: asyncio.Queue[wire.RegisterRequest] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Kubelet]:
        async def register(request: wire.RegisterRequest, _: object) -> wire.Empty:
            self.asked.put_nowait(request)
            return wire.Empty()

        for left in self.folder.glob("*.sock"):
            left.unlink()
        server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(
            register,
            request_deserializer=wire.RegisterRequest.FromString,
            response_serializer=wire.Empty.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": method})
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix://{self.folder / 'kubelet.sock'}")
        await server.start()
        try:
            yield self
        finally:
            await server.stop(None)

    async def devices(self, endpoint: str) -> list[wire.Device]:
        async with grpc.aio.insecure_channel(f"unix://{self.folder / endpoint}") as channel:
            watch = channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch",
                request_serializer=wire.Empty.SerializeToString,
                response_deserializer=wire.ListAndWatchResponse.FromString,
            )
            async for answer in watch(wire.Empty()):
                return list(answer.devices)
        return []

    async def allocate(self, endpoint: str, containers: int) -> wire.AllocateResponse:
        async with grpc.aio.insecure_channel(f"unix://{self.folder / endpoint}") as channel:
            call = channel.unary_unary(
                "/v1beta1.DevicePlugin/Allocate",
                request_serializer=wire.AllocateRequest.SerializeToString,
                response_deserializer=wire.AllocateResponse.FromString,
            )
            each = [wire.ContainerAllocateRequest(devicesIDs=[str(n)]) for n in range(containers)]
            answer: wire.AllocateResponse = await call(wire.AllocateRequest(container_requests=each))
            return answer


@asynccontextmanager
async def plugged(folder: Path, directory: Path) -> AsyncIterator[None]:
    task = asyncio.create_task(DevicePlugin(folder, directory).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_pods_that_ask_get_the_sockets_directory_read_only(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path)
    async with kubelet.running(), plugged(tmp_path, tmp_path / "hawk"):
        asked = await asyncio.wait_for(kubelet.asked.get(), 30)
        devices = await kubelet.devices(asked.endpoint)
        answer = await kubelet.allocate(asked.endpoint, 2)

    assert (asked.version, asked.resource_name) == ("v1beta1", AGENT_RESOURCE)
    assert len({device.ID for device in devices}) == DEVICES
    assert {device.health for device in devices} == {"Healthy"}
    mounts = [list(container.mounts) for container in answer.container_responses]
    directory = str(tmp_path / "hawk")
    assert mounts == [[wire.Mount(container_path=directory, host_path=directory, read_only=True)]] * 2


async def test_a_kubelet_that_starts_anew_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_plugin, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(device_plugin, "CALL_SECONDS", 0.2)
    first, second = Kubelet(tmp_path), Kubelet(tmp_path)
    async with plugged(tmp_path, tmp_path / "hawk"):  # before there is a kubelet
        async with first.running():
            await asyncio.wait_for(first.asked.get(), 30)
        async with second.running():
            again = await asyncio.wait_for(second.asked.get(), 30)
            assert len(await second.devices(again.endpoint)) == DEVICES
