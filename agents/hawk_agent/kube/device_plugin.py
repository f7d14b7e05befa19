"""The agent's socket as a device that pods ask for, so that they need no volume of their node.

PodSecurity forbids hostPath below the level `privileged`. A device plugin has the kubelet mount the socket's
directory, read-only, into containers that ask for the resource `hawkpool.dev/agent`; the scheduler then takes
nodes with an agent alone. There are as many devices as a node may have workers, and they are all alike.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import grpc

from hawk_agent.protocol import device_plugin_pb2 as wire
from hawk_api.labels import AGENT_RESOURCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    Context = grpc.aio.ServicerContext[Any, Any]

DEVICES: Final = 256
ENDPOINT: Final = "hawkpool.sock"
KUBELET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
LOOK_SECONDS: Final = 1.0
CALL_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class DevicePlugin:
    """Serves the kubelet whose plugins are in `folder`; pods are given `directory` at the same path."""

    def __init__(self, folder: Path, directory: Path) -> None:
        self._folder = folder
        self._directory = directory

    async def run(self) -> None:
        """Serve for ever. A kubelet that is away is waited for: pods that run have their mount already."""
        while True:
            try:
                await self._serve()
            except (grpc.aio.AioRpcError, OSError) as error:
                log.warning("device plugin: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _serve(self) -> None:
        """Register and serve until a kubelet starts anew, which knows no plugin and removes their sockets."""
        endpoint = self._folder / ENDPOINT
        endpoint.unlink(missing_ok=True)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix://{endpoint}")
        await server.start()
        try:
            kubelet = _identity(self._folder / KUBELET)
            await self._register()
            log.info("device plugin: registered %s", AGENT_RESOURCE)
            # A file tells nobody that it is gone.
            while endpoint.exists() and _identity(self._folder / KUBELET) == kubelet:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
            log.info("device plugin: the kubelet started anew")
        finally:
            await server.stop(None)
            endpoint.unlink(missing_ok=True)

    async def _register(self) -> None:
        """Tell the kubelet; grpc.aio.AioRpcError when it doesn't answer."""
        request = wire.RegisterRequest(
            version=VERSION,
            endpoint=ENDPOINT,
            resource_name=AGENT_RESOURCE,
            options=wire.DevicePluginOptions(),
        )
        async with grpc.aio.insecure_channel(f"unix://{self._folder / KUBELET}") as channel:
            register = channel.unary_unary(
                f"/{VERSION}.Registration/Register",
                request_serializer=wire.RegisterRequest.SerializeToString,
                response_deserializer=wire.Empty.FromString,
            )
            await register(request, timeout=CALL_SECONDS, wait_for_ready=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            f"{VERSION}.DevicePlugin",
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    self._options,
                    request_deserializer=wire.Empty.FromString,
                    response_serializer=wire.DevicePluginOptions.SerializeToString,
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._devices,
                    request_deserializer=wire.Empty.FromString,
                    response_serializer=wire.ListAndWatchResponse.SerializeToString,
                ),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    self._allocate,
                    request_deserializer=wire.AllocateRequest.FromString,
                    response_serializer=wire.AllocateResponse.SerializeToString,
                ),
            },
        )

    async def _options(self, _: wire.Empty, __: Context) -> wire.DevicePluginOptions:
        return wire.DevicePluginOptions()

    async def _devices(self, _: wire.Empty, __: Context) -> AsyncIterator[wire.ListAndWatchResponse]:
        """All devices once; they never change, and the kubelet counts them as gone when the stream ends."""
        found = [wire.Device(ID=str(number), health="Healthy") for number in range(DEVICES)]
        yield wire.ListAndWatchResponse(devices=found)
        await asyncio.Event().wait()

    async def _allocate(self, request: wire.AllocateRequest, _: Context) -> wire.AllocateResponse:
        directory = str(self._directory)
        mount = wire.Mount(container_path=directory, host_path=directory, read_only=True)
        answer = wire.ContainerAllocateResponse(mounts=[mount])
        return wire.AllocateResponse(container_responses=[answer for _ in request.container_requests])


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there now; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns
